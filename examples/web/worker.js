// Computes beside the page, which stays responsive meanwhile: an image's singular values, then its leading triples, and the image at any rank.
import init, { decompose, spectrum } from './svdvals_gpu_web.js';

const ready = init();
const FEW = 64; // triples that are computed at once; all of them where a larger rank is asked for
let latest; // the image that was sent last
let image; // what was sent: id, rgba, width, height, backend
let decomposition; // of the latest image, or none

async function computeAll(sent) {
  latest = sent.id;
  await ready;
  const result = await spectrum(sent.rgba, sent.width, sent.height, sent.backend);
  const { values, backend, reason, seconds } = result;
  result.free();
  if (sent.id !== latest) return;
  image = sent;
  decomposition?.free();
  decomposition = undefined;
  postMessage({ id: sent.id, values, backend, reason, seconds });
  if (await has(sent.id, Math.min(FEW, values.length))) {
    postMessage({ id: sent.id, decomposed: { seconds: decomposition.seconds, backend: decomposition.backend, colours: decomposition.colours } });
  }
}

// Whether there are so many triples of this image, computed now if need be.
async function has(id, triples) {
  if (image?.id !== id || latest !== id) return false;
  if (decomposition?.triples >= triples) return true;
  const { rgba, width, height, backend } = image;
  const found = await decompose(rgba, width, height, backend, triples <= FEW ? FEW : width * height);
  if (id !== latest) {
    found.free();
    return false;
  }
  decomposition?.free();
  decomposition = found;
  return true;
}

async function atRank({ id, rank }) {
  if (!(await has(id, rank))) return; // for an earlier image
  const result = decomposition.at_rank(rank);
  const { rgba, error } = result;
  result.free();
  postMessage({ id, rank, rgba, relative: error }, [rgba.buffer]);
}

onmessage = async ({ data }) => {
  try {
    await (data.rank ? atRank(data) : computeAll(data));
  } catch (error) {
    postMessage({ id: data.id, error: String(error?.message ?? error) });
  }
};
