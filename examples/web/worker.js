// Computes beside the page, which stays responsive meanwhile: an image's singular values, then its decomposition, and the image at any rank.
import init, { decompose, spectrum } from './svdvals_gpu_web.js';

const ready = init();
let latest; // the image that was sent last
let decomposed; // the latest that is decomposed: id, decomposition

async function computeAll({ id, rgba, width, height, backend: wanted }) {
  latest = id;
  await ready;
  const result = await spectrum(rgba, width, height, wanted);
  const { values, backend, reason, seconds } = result;
  result.free();
  postMessage({ id, values, backend, reason, seconds });
  if (id !== latest) return;
  const decomposition = await decompose(rgba, width, height, wanted);
  if (id !== latest) {
    decomposition.free();
    return;
  }
  decomposed?.decomposition.free();
  decomposed = { id, decomposition };
  postMessage({ id, decomposed: { seconds: decomposition.seconds, backend: decomposition.backend } });
}

function atRank({ id, rank }) {
  if (decomposed?.id !== id) return; // for an earlier image
  const result = decomposed.decomposition.at_rank(rank);
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
