// The headroom map's cells, their colours and words.
const cells = Int8Array.from(atob(data.cells), (c) => c.charCodeAt(0));
const columns = data.steps.length;

// The colour is a function of the bits alone, never of the other data.
function colourOf(code) {
  const { nan, inf, zero, unmeasured } = data.codes;
  if (code === unmeasured) return null;
  if (code === nan) return [213, 0, 249];
  if (code === inf) return [122, 0, 184];
  if (code === zero) return [158, 158, 158];
  const stops = data.stops;
  const bits = Math.min(Math.max(code / 4, stops[0][0]), stops.at(-1)[0]);
  const at = stops.findIndex(([end], i) => i > 0 && bits <= end);
  const [low, p] = stops[at - 1];
  const [high, q] = stops[at];
  const share = (bits - low) / (high - low);
  return p.map((x, i) => Math.round(x + (q[i] - x) * share));
}
const palette = new Map();
for (let code = -128; code < 128; code++) palette.set(code, colourOf(code));

const css = (rgb) => (rgb ? `rgb(${rgb.join(" ")})` : "transparent");

function describe(code) {
  const { nan, inf, zero, unmeasured } = data.codes;
  if (code === nan) return "NaN";
  if (code === inf) return "Inf";
  if (code === zero) return speak("zero");
  if (code === unmeasured) return speak("unmeasured");
  const bits = (code / 4).toFixed(2).replace("-", "−");
  return speak(code >= 125 ? "bits_or_more" : "bits", { bits });
}
