// Writes a screenshot again with at most 256 colors, which takes a third of the space: node small-png.mjs FROM TO

import { readFileSync, writeFileSync } from "node:fs";
import { crc32, deflateSync, inflateSync } from "node:zlib";

const [, , from, to] = process.argv;
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Returns the size and the bytes of each pixel of a PNG with eight bits per channel. */
function decode(file) {
  const data = [];
  let head = null;
  for (let at = SIGNATURE.length; at < file.length; ) {
    const length = file.readUInt32BE(at);
    const type = file.toString("latin1", at + 4, at + 8);
    const body = file.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") head = { width: body.readUInt32BE(0), height: body.readUInt32BE(4), depth: body[8], color: body[9] };
    if (type === "IDAT") data.push(body);
    at += length + 12;
  }
  if (head.depth !== 8 || (head.color !== 2 && head.color !== 6)) throw new Error(`${from} is not a screenshot`);
  const channels = head.color === 6 ? 4 : 3;
  return { ...head, channels, pixels: unfiltered(inflateSync(Buffer.concat(data)), head, channels) };
}

/** Undoes the filters of the lines. */
function unfiltered(raw, { width, height }, channels) {
  const stride = width * channels;
  const pixels = Buffer.alloc(stride * height);
  for (let line = 0; line < height; line += 1) {
    const filter = raw[line * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const at = line * stride + x;
      const left = x >= channels ? pixels[at - channels] : 0;
      const up = line ? pixels[at - stride] : 0;
      const corner = line && x >= channels ? pixels[at - stride - channels] : 0;
      pixels[at] = raw[line * (stride + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return pixels;
}

function paeth(left, up, corner) {
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** Returns up to 256 colors, the most frequent ones, and the index of the nearest one for each pixel. */
function reduce({ width, height, channels, pixels }) {
  const colors = new Uint32Array(width * height);
  const counts = new Map();
  for (let at = 0; at < colors.length; at += 1) {
    const place = at * channels;
    const color = (pixels[place] << 16) | (pixels[place + 1] << 8) | pixels[place + 2];
    colors[at] = color;
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([color]) => color);
  const parts = (color) => [color >> 16, (color >> 8) & 255, color & 255];
  const known = palette.map(parts);
  const distance = (one, other) => one.reduce((sum, part, number) => sum + (part - other[number]) ** 2, 0);
  const nearest = new Map();
  for (const color of counts.keys()) {
    const mine = parts(color);
    const distances = known.map((other) => distance(mine, other));
    nearest.set(color, distances.indexOf(Math.min(...distances)));
  }
  return { palette: Buffer.from(known.flat()), indexes: Buffer.from(colors.map((color) => nearest.get(color))) };
}

function chunk(type, body) {
  const named = Buffer.concat([Buffer.from(type, "latin1"), body]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}

const image = decode(readFileSync(from));
const { palette, indexes } = reduce(image);
const head = Buffer.alloc(13);
head.writeUInt32BE(image.width, 0);
head.writeUInt32BE(image.height, 4);
head.set([8, 3, 0, 0, 0], 8);
const lines = Array.from({ length: image.height }, (_, line) => [Buffer.from([0]), indexes.subarray(line * image.width, (line + 1) * image.width)]);
const data = deflateSync(Buffer.concat(lines.flat()), { level: 9, memLevel: 9 });
writeFileSync(to, Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", palette), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))]));
