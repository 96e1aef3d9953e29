// The mutation suite (mutate.hpp) over the attention operators' programs.
#include "tests/npu/mutants/mutate.hpp"
#include "tests/npu/programs/small_attention.hpp"

namespace inlay::npu::test {
namespace {

class MutantsOfAttention : public testing::TestWithParam<Problem> {
 protected:
  static Count total;
  static void TearDownTestSuite() { std::cout << "attention: " << total << "\n"; }
};
Count MutantsOfAttention::total;

TEST_P(MutantsOfAttention, EveryNecessarySyncIsReported) {
  for (const Device& device : devices_for_attention()) total += mutate(GetParam(), device);
}

TEST(MutantsOfStackedHalves, EveryNecessarySyncIsReported) {
  for (const Problem& program : small_attention_on_an_array()) mutate(program, small_array());
}

std::string test_name(const testing::TestParamInfo<Problem>& info) {
  std::string name = info.param.name;
  name.erase(std::remove(name.begin(), name.end(), ','), name.end());
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(, MutantsOfAttention, testing::ValuesIn(small_attention()), test_name);

}  // namespace
}  // namespace inlay::npu::test
