// Safetensors files in plain JavaScript: read, write, and the 16- and 32-bit formats as numbers.

import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

const BYTES = { F64: 8, F32: 4, F16: 2, BF16: 2, U8: 1, BOOL: 1, F8_E4M3: 1, F8_E5M2: 1 };

// name -> { dtype, shape, bytes }
export function readTensors(path) {
  const file = readFileSync(path);
  const length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + length).toString());
  const found = {};
  for (const [name, { dtype, shape, data_offsets: [start, stop] }] of Object.entries(header)) {
    if (name !== "__metadata__") {
      found[name] = { dtype, shape, bytes: file.subarray(8 + length + start, 8 + length + stop) };
    }
  }
  return found;
}

export function writeTensors(path, tensors) {
  const header = {};
  let offset = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, Buffer.concat([length, text, ...Object.values(tensors).map((t) => t.bytes)]));
}

function ofHalf(bits, fractionBits, bias) {
  const sign = bits & 0x8000 ? -1 : 1;
  const field = (bits & 0x7fff) >> fractionBits;
  const fraction = bits & (2 ** fractionBits - 1);
  const top = 2 ** (15 - fractionBits) - 1;
  if (field === top) return fraction ? NaN : sign * Infinity;
  const significand = field ? fraction + 2 ** fractionBits : fraction;
  return sign * significand * 2 ** (Math.max(field, 1) - bias - fractionBits);
}

// The exact numbers of a tensor, as a Float64Array.
export function numbers({ dtype, bytes }) {
  const found = new Float64Array(bytes.length / BYTES[dtype]);
  for (let i = 0; i < found.length; i++) {
    if (dtype === "F64") found[i] = bytes.readDoubleLE(8 * i);
    else if (dtype === "F32") found[i] = bytes.readFloatLE(4 * i);
    else if (dtype === "F16") found[i] = ofHalf(bytes.readUInt16LE(2 * i), 10, 15);
    else if (dtype === "BF16") found[i] = ofHalf(bytes.readUInt16LE(2 * i), 7, 127);
    else found[i] = bytes[i];
  }
  return found;
}

// Round to nearest, ties to even, into the format with `p` significand bits and least exponent
// `emin`; the formats meet no overflow here, because a softmax is at most 1.
export function roundTo(dtype, value) {
  if (dtype === "F32" || !Number.isFinite(value) || value === 0) return Math.fround(value);
  const [p, emin] = dtype === "F16" ? [11, -14] : [8, -126];
  let exponent = Math.floor(Math.log2(Math.abs(value)));
  if (2 ** exponent > Math.abs(value)) exponent -= 1;
  else if (2 ** (exponent + 1) <= Math.abs(value)) exponent += 1;
  const unit = 2 ** (Math.max(exponent, emin) - p + 1);
  const scaled = value / unit;
  const below = Math.floor(scaled);
  const rest = scaled - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 !== 0);
  return (up ? below + 1 : below) * unit;
}

// The bytes of numbers that the format holds (softmax outputs: at least 0, at most 1, or NaN).
export function toBytes(dtype, values) {
  const bytes = Buffer.alloc(values.length * BYTES[dtype]);
  values.forEach((value, i) => {
    if (dtype === "F32") return bytes.writeFloatLE(value, 4 * i);
    const [bits, bias] = dtype === "F16" ? [10, 15] : [7, 127];
    if (Number.isNaN(value)) return bytes.writeUInt16LE(0x7fff, 2 * i);
    let exponent = value === 0 ? 1 - bias : Math.max(Math.floor(Math.log2(value)), 1 - bias);
    if (value !== 0 && exponent > 1 - bias && 2 ** exponent > value) exponent -= 1;
    const units = value / 2 ** (exponent - bits);
    const field = units >= 2 ** bits ? exponent + bias : 0;
    return bytes.writeUInt16LE((field << bits) | (units % 2 ** bits), 2 * i);
  });
  return bytes;
}

// Softmax of each row in float64, rounded once to the format.
export function softmax(x, rows, n, dtype) {
  const found = new Float64Array(rows * n);
  for (let r = 0; r < rows; r++) {
    const row = x.subarray(r * n, (r + 1) * n);
    const largest = row.reduce((a, b) => (Number.isNaN(a) || a > b ? a : b), -Infinity);
    const e = row.map((value) => Math.exp(value - largest));
    const sum = e.reduce((a, b) => a + b, 0);
    e.forEach((value, i) => (found[r * n + i] = roundTo(dtype, value / sum)));
  }
  return found;
}
