// Computes beside the page, which stays responsive meanwhile.
import init, { spectrum } from './svdvals_gpu_web.js';

const ready = init();

onmessage = async ({ data: { id, rgba, width, height, backend: wanted } }) => {
  try {
    await ready;
    const result = await spectrum(rgba, width, height, wanted);
    const { values, backend, reason, seconds } = result;
    result.free();
    postMessage({ id, values, backend, reason, seconds });
  } catch (error) {
    postMessage({ id, error: String(error?.message ?? error) });
  }
};
