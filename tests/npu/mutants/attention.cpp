// The mutation suite (mutate.hpp) over the attention operators' programs.
#include "tests/npu/mutants/mutate.hpp"
#include "tests/npu/programs/small_attention.hpp"

namespace inlay::npu::test {
namespace {

class MutantsOfAttention : public testing::TestWithParam<std::size_t> {
 protected:
  static Count total;
  static void TearDownTestSuite() { std::cout << "attention: " << total << "\n"; }
};
Count MutantsOfAttention::total;

TEST_P(MutantsOfAttention, EveryNecessarySyncIsReported) {
  const std::vector<Device> devices = devices_for_attention();
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (has_its_turn(GetParam(), d)) total += mutate(small_attention()[GetParam()], devices[d]);
}

TEST(MutantsOfStackedHalves, EveryNecessarySyncIsReported) {
  for (const Problem& program : small_attention_on_an_array()) mutate(program, small_array());
}

std::string test_name(const testing::TestParamInfo<std::size_t>& info) {
  std::string name = small_attention()[info.param].name;
  name.erase(std::remove(name.begin(), name.end(), ','), name.end());
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(, MutantsOfAttention, testing::Range<std::size_t>(0, small_attention().size()), test_name);

}  // namespace
}  // namespace inlay::npu::test
