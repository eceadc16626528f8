// The page in headless Chromium: what it computes, against the native program; what it shows; pictures of it.
//   test.mjs FOLDER (of the built page) SPECTRUM (the example, native) NODE_MODULES CHROMIUM [WGSL (a folder of texts that it is to compile)]
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, extname, join } from 'node:path';

const [folder, native, modules, executablePath, sources] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)('playwright-core');

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const server = createServer(({ url }, response) => {
  const name = basename(new URL(url, 'http://localhost').pathname) || 'index.html';
  try {
    const bytes = readFileSync(join(folder, name));
    response.writeHead(200, { 'content-type': TYPES[extname(name)] ?? 'application/octet-stream' }).end(bytes);
  } catch {
    response.writeHead(404).end();
  }
}).listen(0, '127.0.0.1');
await new Promise((listening) => server.once('listening', listening));
const address = `http://localhost:${server.address().port}/`;

const scratch = mkdtempSync(join(tmpdir(), 'svdvals-gpu-web-'));
const flags = ['--headless', '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const SOFTWARE_GPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-features=Vulkan'];
const open = (name, args) => chromium.launchPersistentContext(join(scratch, name), { executablePath, args: [...flags, ...args], viewport: { width: 1200, height: 900 } });

const GREY = [0.299, 0.587, 0.114];

// The native singular values of a sum of the colours of these pixels.
function reference(rgba, width, height, parts = GREY) {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${height}, ${width}), }`.padEnd(117) + '\n';
  const { fround } = Math;
  const grey = new Float32Array(width * height).map((_, i) => {
    const [r, g, b] = parts.map((part, j) => fround(fround(part) * rgba[4 * i + j]));
    return fround(fround(r + g) + b);
  });
  const [npy, json] = [join(scratch, 'image.npy'), join(scratch, 'image.json')];
  writeFileSync(npy, Buffer.concat([Buffer.from('\x93NUMPY\x01\x00\x76\x00', 'latin1'), Buffer.from(header), Buffer.from(grey.buffer)]));
  const run = spawnSync(native, [npy, '--backend', 'cpu', '--json', json, '--out', join(scratch, 'image.png')], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(readFileSync(json)).matrices[0].singular_values;
}

// Either errs by `eps` of ||s||_2 or less (ACCURACY.md), so they differ by two at most; there is room for four.
function agree(got, want, eps) {
  assert.equal(got.length, want.length);
  const norm = (s) => Math.hypot(...s);
  const error = norm(got.map((x, i) => x - want[i])) / norm(want);
  assert.ok(error <= 4 * eps, `relative error ${error}`);
  return error;
}

// What Chromium's compiler has against these texts.
async function compiles(page, texts) {
  const found = await page.evaluate(async (texts) => {
    const device = await (await navigator.gpu.requestAdapter()).requestDevice();
    const infos = await Promise.all(texts.map(([, code]) => device.createShaderModule({ code }).getCompilationInfo()));
    return infos.map(({ messages }) => messages.filter(({ type }) => type === 'error').map(({ lineNum, message }) => `line ${lineNum}: ${message}`));
  }, texts);
  assert.ok(texts.length > 0);
  assert.deepEqual(texts.map(([name], i) => [name, found[i]]).filter(([, errors]) => errors.length > 0), []);
  console.log(`${texts.length} shaders compile`);
}

// The program alone, on random pixels: on the small matrix's way (of the CPU), and by way of a band.
async function computes(page, backend, eps) {
  for (const [width, height] of [[200, 150], [300, 400]]) {
    const random = await page.evaluate(async ([width, height, backend]) => {
      const { default: init, spectrum } = await import('./svdvals_gpu_web.js');
      await init();
      let state = 42;
      const rgba = Uint8Array.from({ length: 4 * width * height }, () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 24);
      const { values, backend: ran } = await spectrum(rgba, width, height, backend);
      const refused = await spectrum(rgba, width, height + 1, backend).then(() => null, (error) => error.message);
      return { rgba: [...rgba], values: [...values], ran, refused };
    }, [width, height, backend]);
    assert.match(random.refused, new RegExp(`${width} x ${height + 1}`));
    assert.ok(random.ran.toLowerCase().startsWith(backend));
    console.log(`${width} x ${height} on ${random.ran}: relative error ${agree(random.values, reference(random.rgba, width, height), eps)}`);
  }
}

// Waits for the image at rank k. An error that the page shows in its place ends the test.
async function isShownAt(page, k) {
  const there = (k) => document.querySelector('#status.error') ?? document.querySelector(`#low[data-rank="${k}"]:not([hidden])`);
  await page.waitForFunction(there, k, { timeout: 120_000 });
  assert.equal(await page.innerText('#status'), '');
}

let browser;
try {
  browser = await open('profile', ['--disable-gpu']);
  const page = await browser.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(address);
  await computes(page, 'cpu', 2 ** -24);

  // The page shows the sample at once. From its button to its slider:
  await page.waitForSelector('#low', { state: 'visible', timeout: 120_000 });
  const fact = (name) => page.locator('#facts tr', { hasText: name }).locator('td').innerText();
  await page.click('#sample');
  await page.waitForSelector('#result', { state: 'visible' });
  const [width, height] = [480, 360];
  const rgba = await page.evaluate(() => {
    const canvas = document.getElementById('image');
    return [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data];
  });
  const values = reference(rgba, width, height);
  assert.equal(await fact('Pixels'), `${width} x ${height}`);
  assert.equal(await fact('Computed by'), 'CPU');
  assert.match(await page.locator('#facts tr', { hasText: 'Computed by' }).getAttribute('title'), /no GPU/);
  assert.ok(Math.abs(Number(await fact('Largest singular value')) / values[0] - 1) < 1e-3);
  const energies = values.map(((sum) => (s) => (sum += s * s))(0)).map((e, _, all) => e / all.at(-1));
  const rank = energies.findIndex((e) => e >= 0.99) + 1;
  assert.equal(await fact('99 %'), `${rank} of ${values.length}`);
  for (const k of [1, 10, rank, values.length]) {
    await page.fill('#k', String(k));
    // Three decimals are shown.
    const [, percent] = (await page.innerText('#energy')).match(/: ([\d.]+) %/);
    assert.ok(Math.abs(percent - 100 * energies[k - 1]) < 1e-3, `${percent} % at ${k}`);
  }
  // The image at rank k: the error beside it is that of the dropped values of all colours, to max(m, n) eps and half of the third decimal; and so is
  // the error of its pixels, or less where they are cut to 0 to 255, to half a shade each.
  const norm = (x) => Math.sqrt(x.reduce((sum, y) => sum + y * y, 0));
  const colours = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((parts) => reference(rgba, width, height, parts));
  const whole = norm(colours.flat());
  const dropped = values.map((_, k) => norm(colours.flatMap((of) => of.slice(k + 1))) / whole);
  const shades = rgba.filter((_, i) => i % 4 < 3);
  for (const k of [1, 10, rank, values.length]) {
    await page.fill('#k', String(k));
    await isShownAt(page, k);
    const [, percent] = (await page.innerText('#lowFacts')).match(/error ([\d.]+) %/);
    assert.ok(Math.abs(percent - 100 * dropped[k - 1]) <= 100 * width * 2 ** -23 + 5e-4, `error ${percent} % at ${k}, not ${100 * dropped[k - 1]}`);
    const pixels = await page.evaluate(() => {
      const canvas = document.getElementById('lowImage');
      return [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data].filter((_, i) => i % 4 < 3);
    });
    assert.equal(pixels.length, shades.length);
    const error = norm(pixels.map((x, i) => x - shades[i])) / whole;
    const rounding = 0.5 * Math.sqrt(shades.length) / whole;
    assert.ok(error <= dropped[k - 1] + 1.01 * rounding, `the pixels err by ${error} at ${k}`);
  }
  // Moved again and again, the slider ends with the image of its last rank.
  for (const k of [3, 200, 17, 40]) await page.fill('#k', String(k));
  await page.waitForSelector('#low[data-rank="40"]');
  await page.fill('#k', String(rank));
  await isShownAt(page, rank);
  // By keyboard: Tab reaches the slider, and an arrow moves it.
  await page.focus('#backend');
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowRight');
  await isShownAt(page, rank + 1);
  console.log(`sample decomposed: ${await page.getAttribute('#lowFacts', 'title')}`);
  console.log(`sample: ${await fact('Seconds')} s on ${await fact('Computed by')}`);
  await page.screenshot({ path: join(folder, 'page.png'), fullPage: true });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: join(folder, 'page_dark.png'), fullPage: true });
  await page.emulateMedia({ colorScheme: 'light' });

  // A file that is larger than the page takes, and one that is no image.
  const root = new URL('../../', import.meta.url).pathname;
  await page.setInputFiles('#file', `${root}examples/data/spectrum.png`);
  await page.waitForSelector('#facts tr:has-text("1024 x")');
  console.log(`${await fact('Pixels')}: ${await fact('Seconds')} s on ${await fact('Computed by')}`);
  await page.waitForSelector('#low', { state: 'visible', timeout: 120_000 });
  await page.screenshot({ path: join(folder, 'page_of_a_file.png'), fullPage: true });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.screenshot({ path: join(folder, 'page_narrow.png'), fullPage: true });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'a phone scrolls to the side');
  // One pixel, and more pixels than the page takes.
  for (const [width, height, size] of [[1, 1, '1 x 1'], [5000, 3000, '1024 x 614, from 5000 x 3000']]) {
    const bytes = await page.evaluate(async ([width, height]) => {
      const canvas = new OffscreenCanvas(width, height);
      const context = canvas.getContext('2d');
      context.fillStyle = '#4080c0';
      context.fillRect(0, 0, width, height / 2 + 1);
      return [...new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer())];
    }, [width, height]);
    await page.setInputFiles('#file', { name: 'made.png', mimeType: 'image/png', buffer: Buffer.from(bytes) });
    await page.waitForSelector(`#facts tr:has-text("${size}")`);
    await page.waitForSelector('#low', { state: 'visible', timeout: 120_000 });
    assert.equal(await page.innerText('#status'), '');
  }
  await page.setInputFiles('#file', `${root}examples/data/camera.npy`);
  await page.waitForSelector('#status.error');
  assert.match(await page.innerText('#status'), /camera\.npy is no image/);
  assert.deepEqual(complaints, []);
  await browser.close();

  // The same by WebGPU, on Chromium's software driver.
  browser = await open('profile_gpu', SOFTWARE_GPU);
  const other = await browser.newPage();
  other.on('pageerror', (error) => complaints.push(String(error)));
  await other.goto(address);
  if (sources) await compiles(other, readdirSync(sources).map((name) => [name, readFileSync(join(sources, name), 'utf8')]));
  await computes(other, 'gpu', 2 ** -23);
  await other.click('#sample');
  await other.waitForSelector('#result', { state: 'visible', timeout: 120_000 });
  assert.match(await other.innerText('#facts tr:has-text("Computed by")'), /GPU/);
  assert.equal(await other.innerText('#facts tr:has-text("Rank for 99 %") td'), `${rank} of ${values.length}`);
  await isShownAt(other, rank);
  const decomposed = await other.getAttribute('#lowFacts', 'title');
  assert.match(decomposed, /GPU/);
  const [, percent] = (await other.innerText('#lowFacts')).match(/error ([\d.]+) %/);
  assert.ok(Math.abs(percent - 100 * dropped[rank - 1]) <= 100 * width * 2 ** -23 + 5e-4, `error ${percent} % by WebGPU`);
  console.log(`sample by WebGPU: ${await other.innerText('#facts tr:has-text("Seconds") td')} s. ${decomposed}`);
  await other.screenshot({ path: join(folder, 'page_gpu.png'), fullPage: true });
  assert.deepEqual(complaints, []);
} finally {
  await browser?.close();
  server.close();
  rmSync(scratch, { recursive: true, force: true });
}
