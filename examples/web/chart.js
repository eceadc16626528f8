// One curve over k = 1, 2, .. n on a canvas, with axes, and a mark at one k. Either axis may be logarithmic.

// Round steps of an axis from `low` to `high`, about `count` of them.
function steps(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) ticks.push(t);
  return ticks;
}

const SUPERSCRIPTS = { '-': '\u207b', 0: '\u2070', 1: '\u00b9', 2: '\u00b2', 3: '\u00b3', 4: '\u2074', 5: '\u2075', 6: '\u2076', 7: '\u2077', 8: '\u2078', 9: '\u2079' };
const powerOfTen = (e) => `10${[...String(e)].map((c) => SUPERSCRIPTS[c]).join('')}`;

// `colour` names one of the page's colours.
export function plot(canvas, { title, values, k, logX = false, logY = false, colour }) {
  const styles = getComputedStyle(document.documentElement);
  const style = (name) => styles.getPropertyValue(name).trim();
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const c = canvas.getContext('2d');
  c.scale(ratio, ratio);
  const [left, right, top, bottom] = [52, width - 12, 34, height - 40];

  // What is rounding, eight digits below the largest, lies on the axis.
  const floor = logY ? Math.log10(Math.max(values[0], 1e-37)) - 8 : 0;
  const heightOf = (v) => (logY ? Math.max(Math.log10(Math.max(v, 1e-37)), floor) : v);
  const heights = Array.from(values, heightOf);
  const [low, high] = logY ? [Math.floor(Math.min(...heights)), Math.ceil(Math.max(...heights) + 1e-9)] : [Math.min(heights[0], 90), 100];
  const n = values.length;
  const part = (i) => (logX ? Math.log(i) / Math.log(Math.max(n, 2)) : (i - 1) / Math.max(n - 1, 1));
  const x = (i) => left + (right - left) * part(i);
  const y = (v) => bottom - ((bottom - top) * (v - low)) / (high - low);

  c.font = '13px system-ui, sans-serif';
  c.fillStyle = style('--soft');
  c.strokeStyle = style('--line');
  c.textAlign = 'right';
  c.textBaseline = 'middle';
  for (const t of steps(low, high, 7).filter((t) => !logY || Number.isInteger(t))) {
    c.beginPath();
    c.moveTo(left, y(t));
    c.lineTo(right, y(t));
    c.stroke();
    c.fillText(logY ? powerOfTen(t) : String(Number(t.toPrecision(3))), left - 8, y(t));
  }
  c.textAlign = 'center';
  c.textBaseline = 'top';
  const powersOfTwo = Array.from({ length: Math.floor(Math.log2(n)) + 1 }, (_, e) => 2 ** e);
  const ticks = logX ? powersOfTwo : [1, ...steps(0, n, 5).filter((t) => t > n / 12 && Number.isInteger(t))];
  for (const t of ticks) c.fillText(String(t), x(t), bottom + 6);
  c.fillText('k', (left + right) / 2, bottom + 23);
  c.textAlign = 'left';
  c.fillStyle = style('--text');
  c.font = '600 15px system-ui, sans-serif';
  c.fillText(title, left, 6);

  c.strokeStyle = style('--mark');
  c.setLineDash([4, 4]);
  c.beginPath();
  c.moveTo(x(k), top);
  c.lineTo(x(k), bottom);
  c.stroke();
  c.setLineDash([]);

  c.strokeStyle = style(colour);
  c.lineWidth = 2;
  c.beginPath();
  heights.forEach((v, i) => c.lineTo(x(i + 1), y(v)));
  c.stroke();
  for (const i of n === 1 ? [1, k] : [k]) {
    c.beginPath();
    c.arc(x(i), y(heights[i - 1]), 4, 0, 2 * Math.PI);
    c.fillStyle = style(colour);
    c.fill();
  }
}
