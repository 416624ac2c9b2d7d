// The error of a softmax in JavaScript, against the committed vectors: no arbitrary precision needed.
//     node examples/javascript/vectors.mjs [references/vectors]

import { readFileSync } from "node:fs";
import { numbers, readTensors, softmax } from "./tensors.mjs";

const folder = process.argv[2] ?? "references/vectors";
const { cases } = JSON.parse(readFileSync(`${folder}/manifest.json`));
const DIGITS = { fp16: 11, bf16: 8, fp32: 24 };
const LEAST = { fp16: -14, bf16: -126, fp32: -126 };
const worst = {};

for (const { case: id, operation, format, file } of cases) {
  if (operation !== "softmax") continue;
  const tensors = readTensors(`${folder}/${file}`);
  const get = (name) => tensors[`${id}/${name}`];
  const [rows, n] = get("x").shape;
  const output = softmax(numbers(get("x")), rows, n, get("x").dtype);
  const [hi, lo, classes] = ["hi", "lo", "classes"].map((w) => numbers(get(`output.${w}`)));
  output.forEach((value, i) => {
    if (classes[i] !== 1) return;
    const exponent = Math.max(hi[i] ? Math.floor(Math.log2(Math.abs(hi[i]))) : -1074, LEAST[format]);
    const ulps = Math.abs(value - hi[i] - lo[i]) / 2 ** (exponent - DIGITS[format] + 1);
    const found = (worst[format] ??= { ulps: 0, elements: 0 });
    found.elements += 1;
    if (!(ulps <= found.ulps)) Object.assign(found, { ulps, case: id });
  });
}
console.log(JSON.stringify(worst));
