// Reads what `_wire.py` wrote. A scene gets `Packed`: `header` (plain JSON) and `columns` by name.
//
// Bytes after base64 and zlib: "PWT1", uint32 length of the header, the header as JSON, then the
// columns one after another, each beginning at a multiple of 8, all little-endian. The header's own
// `columns` lists name, type, shape, offset, and how the bytes lie: "plain", "delta" (first
// differences along the first axis) or "planes" (all lowest bytes, then all next bytes, ...).

/** @typedef {Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | Float32Array | Float64Array} Numbers */
/** @typedef {{name: string, type: string, shape: number[], offset: number, coding: "plain" | "delta" | "planes"}} ColumnEntry */
/** @typedef {{form: string, kind: string, columns: ColumnEntry[]} & Record<string, any>} Header */
/** @typedef {{header: Header, columns: Record<string, Numbers>, shapes: Record<string, number[]>}} Packed */

/** @type {Record<string, {new (buffer: ArrayBuffer): Numbers, BYTES_PER_ELEMENT: number}>} */
const TYPES = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array,
  u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

/**
 * Decode a `trace` trait.
 * @param {string} text base64 of the zlib-compressed buffer
 * @returns {Promise<Packed>}
 */
export async function unpack(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("This browser cannot decompress the recorded run; it needs Chrome 80, Firefox 113, Safari 16.4 or newer.");
  }
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return parse(await new Response(stream).arrayBuffer());
}

/**
 * Cut the uncompressed buffer into its columns.
 * @param {ArrayBuffer} buffer
 * @returns {Packed}
 */
export function parse(buffer) {
  const magic = new TextDecoder().decode(new Uint8Array(buffer, 0, 4));
  if (magic !== "PWT1") throw new Error(`The recorded run begins with "${magic}", not with "PWT1".`);
  const length = new DataView(buffer).getUint32(4, true);
  /** @type {Header} */
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  /** @type {Record<string, Numbers>} */
  const columns = {};
  /** @type {Record<string, number[]>} */
  const shapes = {};
  const start = aligned(8 + length);
  for (const entry of header.columns) {
    columns[entry.name] = column(buffer, start + entry.offset, entry);
    shapes[entry.name] = entry.shape;
  }
  return { header, columns, shapes };
}

/** @param {number} offset @returns {number} */
function aligned(offset) {
  return Math.ceil(offset / 8) * 8;
}

/**
 * @param {ArrayBuffer} buffer
 * @param {number} offset
 * @param {ColumnEntry} entry
 * @returns {Numbers}
 */
function column(buffer, offset, { type, shape, coding }) {
  const Type = TYPES[type];
  const count = shape.reduce((product, side) => product * side, 1);
  const width = Type.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(buffer, offset, count * width);
  const raw = new Uint8Array(count * width);
  if (coding === "planes") {
    for (let plane = 0; plane < width; plane++) {
      for (let i = 0; i < count; i++) raw[i * width + plane] = bytes[plane * count + i];
    }
  } else {
    raw.set(bytes);
  }
  const values = new Type(raw.buffer);
  if (coding !== "delta") return values;
  // Sums of differences may be wider than the differences were.
  const row = count / (shape[0] || 1);
  const sums = new Int32Array(count);
  for (let i = 0; i < count; i++) sums[i] = values[i] + (i >= row ? sums[i - row] : 0);
  return sums;
}
