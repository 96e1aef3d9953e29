// The file of ClOptions::tuning.
#include <string>

#include "cl_kernels/tuning/tuning.hpp"
#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_json(data, size, max_size, seed, 4);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  files.write("tuning.json", {reinterpret_cast<const char*>(data), size});
  const std::string file = files.path("tuning.json");
  ClDevice device;  // that of the corpus
  device.platform = "p", device.name = "d", device.driver = "1";
  const test::Growth growth;
  const Status checked = check_cl_tuning(file);
  if (!checked.ok()) fuzz::expect_clean(checked);
  for (const ClShape shape : {ClShape::per_item, ClShape::per_group}) {
    cl::Tuning tuning(shape);
    const Status read = tuning.read(file, device);
    if (read.ok() != checked.ok()) fuzz::broken_promise("a file that is checked can be read, and no other");
    fuzz::expect_clean({StatusCode::corrupt_data, tuning.origin()});
    for (const ClParameter& parameter : cl_parameters()) {
      const int value = tuning[parameter];
      if (value != parameter.of(shape).usual && (!read.ok() || !cl::check_value(parameter, shape, value).ok()))
        fuzz::broken_promise("a parameter has one of its values, and the usual one where the file is refused");
    }
  }
  fuzz::expect_bounded(growth.bytes(), size);
  return 0;
}
