// Answers an exported softmax corpus: a kernel that Python cannot call.
//     attncert export corpus --operation softmax
//     node examples/javascript/answer.mjs corpus outputs
//     attncert grade corpus outputs

import { readFileSync, writeFileSync } from "node:fs";
import { numbers, readTensors, softmax, toBytes, writeTensors } from "./tensors.mjs";

const [corpus, outputs] = process.argv.slice(2);
const index = JSON.parse(readFileSync(`${corpus}/index.json`));

for (const entry of index.cases) {
  const { x } = readTensors(`${corpus}/${entry.inputs}`);
  const [rows, n] = x.shape;
  const output = softmax(numbers(x), rows, n, x.dtype);
  writeTensors(`${outputs}/${entry.outputs}`, {
    output: { dtype: x.dtype, shape: x.shape, bytes: toBytes(x.dtype, [...output]) },
  });
}
const told = { corpus: index.corpus, kernel: "javascript-softmax", device: "cpu", node: process.version };
writeFileSync(`${outputs}/outputs.json`, JSON.stringify(told));
