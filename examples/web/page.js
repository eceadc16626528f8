// From an image to its pixels, to the worker, to two charts and the image at a rank.
import { plot } from './chart.js';

const MOST = 1024; // pixels of a side
const byId = (id) => document.getElementById(id);
const [canvas, file, slider] = [byId('image'), byId('file'), byId('k')];

let worker;
let latest = 0; // the image that is shown; answers for earlier ones come too late
let drawn = null; // the latest image
let shown = null; // the latest result: values, energies, and whether the worker has the vectors
let asked = null; // the rank that the worker computes the image of

function say(text, isError = false) {
  byId('status').textContent = text;
  byId('status').classList.toggle('error', isError);
}

// Three digits, as people write them.
function short(x) {
  const [digits, exponent] = x.toExponential(2).split('e');
  return Math.abs(exponent) < 5 ? Number(x.toPrecision(4)).toString() : `${digits}e${Number(exponent)}`;
}

// Draws `source`, not larger than MOST, and computes the spectrum of what is drawn.
function compute(source) {
  drawn = source;
  const scale = Math.min(1, MOST / Math.max(source.width, source.height));
  const [width, height] = [source.width, source.height].map((side) => Math.max(1, Math.round(side * scale)));
  Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.fillStyle = '#fff'; // below what is transparent
  context.fillRect(0, 0, width, height);
  context.drawImage(source, 0, 0, width, height);
  canvas.hidden = false;
  byId('hint').hidden = true;
  byId('result').hidden = byId('facts').hidden = true;
  [shown, asked] = [null, null];
  byId('low').hidden = true;
  const { data } = context.getImageData(0, 0, width, height);
  const size = scale < 1 ? `${width} x ${height}, from ${source.width} x ${source.height}` : `${width} x ${height}`;
  start(new Uint8Array(data.buffer), width, height, size);
}

function start(rgba, width, height, size) {
  const id = ++latest;
  say('Computing ...');
  worker ??= new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => {
    if (data.id !== latest) return;
    if (data.error) {
      asked = null;
      say(`The ${shown ? 'image at rank k' : 'spectrum'} could not be computed: ${data.error}`, true);
    } else if (data.values) show(data, size);
    else if (data.rgba) showRank(data, width, height);
    else {
      shown.decomposed = data.decomposed;
      askRank();
    }
  };
  worker.onerror = (event) => {
    // What its memory holds cannot be trusted any more: the next image has a new one.
    worker.terminate();
    worker = null;
    byId('low').hidden = true;
    say(`The program stopped: ${event.message}`, true);
  };
  worker.postMessage({ id, rgba, width, height, backend: byId('backend').value }, [rgba.buffer]);
}

function show({ values, backend, reason, seconds }, size) {
  const squares = Array.from(values, (s) => s * s);
  const total = squares.reduce((sum, x) => sum + x, 0);
  let sum = 0;
  const energies = squares.map((x) => (total > 0 ? (sum += x) / total : 1));
  shown = { values, energies };

  const [largest, smallest] = [values[0], values[values.length - 1]];
  const noise = largest * 2 ** -23; // a value below it is rounding
  const rank = (part) => energies.findIndex((e) => e >= part) + 1 || energies.length;
  const facts = [
    ['Pixels', size],
    ['Computed by', backend, reason],
    ['Seconds', seconds.toFixed(3)],
    ['Largest singular value', short(largest)],
    ['Smallest', smallest < noise ? `below rounding, ${short(noise)}` : short(smallest)],
    ['Stable rank, energy / largest\u00b2', largest > 0 ? short(total / largest ** 2) : '0'],
    ...[0.9, 0.99, 0.999].map((part) => [`Rank for ${short(100 * part)} % of the energy`, `${rank(part)} of ${values.length}`]),
  ];
  byId('facts').replaceChildren(...facts.map(([name, value, title]) => {
    const row = document.createElement('tr');
    const [head, cell] = [document.createElement('th'), document.createElement('td')];
    [head.textContent, cell.textContent, row.title] = [name, value, title ?? ''];
    row.append(head, cell);
    return row;
  }));
  slider.max = values.length;
  slider.value = rank(0.99);
  byId('facts').hidden = byId('result').hidden = false;
  say('');
  draw();
}

function draw() {
  if (!shown) return;
  const { values, energies } = shown;
  const k = Number(slider.value);
  plot(byId('spectrum'), { title: 'Singular values', values, k, logY: true, colour: '--blue' });
  plot(byId('cumulated'), { title: 'Energy of the k largest, %', values: energies.map((e) => 100 * e), k, logX: true, colour: '--green' });
  byId('energy').value = `${k} of ${values.length} values: ${(100 * energies[k - 1]).toFixed(3)} % of the energy`;
}

// The image at the slider's rank, once the worker has the vectors; one at a time.
function askRank() {
  if (shown?.decomposed === undefined || asked !== null) return;
  asked = Number(slider.value);
  worker.postMessage({ id: latest, rank: asked });
}

function showRank({ rank, rgba, relative }, width, height) {
  const low = byId('lowImage');
  Object.assign(low, { width, height });
  low.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(rgba.buffer), width, height), 0, 0);
  const { seconds, backend, colours } = shown.decomposed;
  const stored = (rank * (width + height + 1)) / (width * height);
  const bytes = 4 * colours * rank * (width + height + 1);
  byId('lowFacts').textContent = `Rank ${rank}: relative error ${(100 * relative).toFixed(3)} %, ${(100 * stored).toFixed(1)} % of the numbers, ${bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`} in f32`;
  byId('lowFacts').title = `${colours > 1 ? 'The decompositions of three colours' : 'The decomposition'} took ${seconds.toFixed(3)} s on ${backend}`;
  byId('low').dataset.rank = rank;
  byId('low').hidden = false;
  asked = null;
  if (rank !== Number(slider.value)) askRank(); // it has moved meanwhile
}

async function open(blob) {
  if (!blob) return;
  try {
    compute(await createImageBitmap(blob));
  } catch {
    say(`${blob.name ?? 'This'} is no image that this browser reads.`, true);
  }
}

// Rings, ramps, a checkerboard and noise in colours of their own: smooth parts, edges and texture.
function sample(width = 480, height = 360) {
  const image = new OffscreenCanvas(width, height);
  const pixels = new ImageData(width, height);
  let state = 1;
  for (let at = 0; at < width * height; at++) {
    const [x, y] = [at % width, Math.floor(at / width)];
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const rings = 60 * Math.sin(((x - 150) ** 2 + (y - 180) ** 2) / 900);
    const board = x > 300 && y > 120 && y < 300 && ((x >> 4) + (y >> 4)) % 2 ? 70 : 0;
    const noise = state >>> 28;
    pixels.data.set([90 + 0.2 * x + rings + noise, 70 + 0.25 * y + 0.5 * rings + board + noise, 110 - 0.1 * x + board + noise, 255], 4 * at);
  }
  image.getContext('2d').putImageData(pixels, 0, 0);
  return image;
}

file.onchange = () => open(file.files[0]);
byId('sample').onclick = () => compute(sample());
byId('backend').onchange = () => drawn && compute(drawn);
slider.oninput = () => { draw(); askRank(); };
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
const drop = byId('drop');
addEventListener('dragover', (event) => { event.preventDefault(); drop.classList.add('over'); });
addEventListener('dragleave', () => drop.classList.remove('over'));
addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  open(event.dataTransfer.files[0]);
});

compute(sample());
