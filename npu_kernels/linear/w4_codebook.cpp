#include "npu_kernels/linear/w4_codebook.hpp"

#include <inlay/ops/linear_w4a16.hpp>

namespace inlay::npu {

CodeValues::CodeValues(Core& core, Scratch& scratch, const NdTensor& codebook, Shape most)
    : core_(core),
      codebook_(scratch.alloc("codebook", {1, w4_codebook}, DType::i8)),
      places_(scratch.alloc("places of codes", most, DType::i32)) {
  Ring loaded = core.ring("codebook as it comes", Space::vector, codebook_.shape, DType::i8,
                          {1, Pipe::load_vector, Pipe::vector});  // whose flags are free again behind it
  core.copy(by_axes(loaded.acquire()).at(0, 0), codebook);
  loaded.commit();
  core.vcast(codebook_, loaded.wait());
  loaded.release();
}

void CodeValues::operator()(const Tensor& values, const Tensor& codes) {
  const Tensor places = places_.slice(0, values.rows(), 0, values.columns());
  core_.vcast(places, codes);
  const auto one_run = [](const Tensor& tile) { return tile.region().runs <= 1; };
  if (!one_run(values) || !one_run(places)) return core_.vgather(values, codebook_, places);
  const Shape row{1, values.elements()};
  core_.vshuffle(values.reshape(row), codebook_, places.reshape(row));
}

}  // namespace inlay::npu
