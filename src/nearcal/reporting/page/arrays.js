// Arrays packed by _explorer.py: typed, little-endian, base64. All files of this folder share the scope of one module.

const KINDS = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };

function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// The numbers as they were packed.
function unpack(packed) {
  return new KINDS[packed.kind](decodeBase64(packed.data).buffer);
}

// The numbers they stand for: steps of a scale, places in a list of values, or themselves; NaN where missing.
function unpackNumbers(packed) {
  const raw = unpack(packed);
  if (packed.values) {
    const values = Float64Array.from(packed.values, (value) => value ?? NaN);
    return Float64Array.from(raw, (place) => values[place]);
  }
  if (packed.low === undefined) return Float64Array.from(raw);
  const step = (packed.high - packed.low) / 65535;
  return Float32Array.from(raw, (steps) => packed.low + step * steps);
}
