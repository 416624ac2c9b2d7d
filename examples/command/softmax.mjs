// A softmax in JavaScript behind stdin and stdout.
//     attncert certify --command "node examples/command/softmax.mjs"

import { createInterface } from "node:readline";
import { numbers, readTensors, softmax, toBytes, writeTensors } from "../javascript/tensors.mjs";

const ABOUT = {
  operation: "softmax",
  formats: ["fp16", "bf16", "fp32"],
  declare: { model: "single", deterministic: true },
  summary: "softmax in JavaScript, float64 inside",
  version: process.version,
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = { id: request.id };
  if (request.do === "describe") Object.assign(answer, ABOUT);
  else {
    const { x } = readTensors(request.inputs);
    const output = softmax(numbers(x), ...x.shape, x.dtype);
    const bytes = toBytes(x.dtype, [...output]);
    writeTensors(request.outputs, { output: { dtype: x.dtype, shape: x.shape, bytes } });
  }
  console.log(JSON.stringify(answer));
}
