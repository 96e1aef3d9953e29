// Files that describe devices: read, written again, and refused with the place of what is wrong.
#include <gtest/gtest.h>

#include <string>

#include <inlay/exec/split/device_list.hpp>

namespace inlay::exec::test {
namespace {

std::string quoted(std::string text) {
  for (char& c : text)
    if (c == '\'') c = '"';
  return text;
}
const std::string rates = "'rates': {'flops_a_us': 1e6, 'bytes_a_us': 40}";
const std::string profile =
    "'profile': {'profile': 2, 'device': 'x', 'steps': [{'operator': 'add', 'width': 4, 'input_bytes': 16, 'rows': "
    "[1], "
    "'us': [2]}]}";

TEST(device_list, a_list_is_read_as_it_was_written) {
  const auto list = DeviceList::from_json(quoted(
      "{'sync_us': 400, 'shared_bytes_a_us': 59, 'devices': [{'name': 'a', 'kind': 'npu', 'operators': ['linear'], "
      "'rates': {'flops_a_us': 1e7, 'bytes_a_us': 40, 'submit_us': 3}}, {'name': 'b', "
      "'kind': 'gpu', 'slowed': 1.5, " +
      profile + "}]}"));
  ASSERT_TRUE(list.has_value()) << list.error().message();
  EXPECT_EQ(list->sync_us, 400);
  EXPECT_EQ(list->us_a_byte, 0);
  EXPECT_EQ(list->shared_bytes_a_us, 59);
  ASSERT_EQ(list->devices.size(), 2u);
  const ListedDevice &npu = list->devices[0], &gpu = list->devices[1];
  EXPECT_EQ(npu.kind, DeviceKind::npu);
  EXPECT_TRUE(npu.computes("linear"));
  EXPECT_FALSE(npu.computes("add"));
  EXPECT_TRUE(gpu.computes("add"));
  EXPECT_DOUBLE_EQ(npu.rates->us(2e7, 40), 3 + 2);  // operations are more
  EXPECT_DOUBLE_EQ(npu.rates->us(1e7, 80), 3 + 2);  // bytes are
  EXPECT_EQ(gpu.kind, DeviceKind::gpu);
  EXPECT_FALSE(gpu.rates.has_value());
  EXPECT_EQ(npu.slowed, 1);
  EXPECT_EQ(gpu.slowed, 1.5);
  const auto again = DeviceList::from_json(list->json());
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->json(), list->json());
  EXPECT_EQ(again->devices[0].operators, npu.operators);
}
TEST(device_list, a_list_says_what_is_wrong_with_it) {
  const auto refused = [](const std::string& text) {
    const auto list = DeviceList::from_json(quoted(text));
    return list ? std::string("nothing") : std::string(list.error().message());
  };
  const auto of = [&](const std::string& device) { return refused("{'devices': [" + device + "]}"); };
  const std::string a = "'name': 'a', 'kind': 'cpu', ";
  EXPECT_EQ(of("{" + a + rates + "}"), "nothing");
  EXPECT_EQ(refused("[]"), "devices: the file is an array of 0; it must be an object");
  EXPECT_EQ(refused("{}"), "devices: /devices is missing; it must be a list of 1 to 16 devices");
  EXPECT_EQ(refused("{'devices': []}"), "devices: /devices is an array of 0; it must be a list of 1 to 16 devices");
  EXPECT_EQ(refused("{'devices': [], 'sync': 1}"),
            "devices: /sync is no key; it must be one of devices, sync_us, us_a_byte, shared_bytes_a_us");
  EXPECT_EQ(refused("{'devices': [], 'sync_us': -1}"), "devices: /sync_us is -1; it must be a number, 0 or more");
  EXPECT_EQ(of("{'kind': 'cpu', " + rates + "}"), "devices: /devices/0/name is missing; it must be a name");
  EXPECT_EQ(of("{'name': '', 'kind': 'cpu', " + rates + "}"), "devices: /devices/0/name is \"\"; it must be a name");
  EXPECT_EQ(of("{'name': 'a', 'kind': 'tpu', " + rates + "}"),
            "devices: /devices/0/kind is \"tpu\"; it must be cpu, gpu or npu");
  EXPECT_EQ(of("{" + a + rates + ", " + profile + "}"),
            "devices: /devices/0 has rates and a profile; it must have one of them");
  EXPECT_EQ(of("{'name': 'a', 'kind': 'cpu'}"),
            "devices: /devices/0 has neither rates nor a profile; it must have one of them");
  EXPECT_EQ(of("{" + a + "'rates': {'flops_a_us': 0, 'bytes_a_us': 1}}"),
            "devices: /devices/0/rates/flops_a_us is 0; it must be a number above 0");
  EXPECT_EQ(of("{" + a + "'rates': {'flops_a_us': 1}}"),
            "devices: /devices/0/rates/bytes_a_us is missing; it must be a number above 0");
  EXPECT_EQ(of("{" + a + "'rates': {'flops_a_us': 1, 'bytes_a_us': 'x'}}"),
            "devices: /devices/0/rates/bytes_a_us is \"x\"; it must be a number above 0");
  for (const std::string slowed : {"0.5", "-1", "true"})
    EXPECT_EQ(of("{" + a + "'slowed': " + slowed + ", " + rates + "}"),
              "devices: /devices/0/slowed is " + slowed + "; it must be a number, 1 or more");
  EXPECT_EQ(of("{" + a + "'operators': 'linear', " + rates + "}"),
            "devices: /devices/0/operators is \"linear\"; it must be a list of operators, or left out");
  EXPECT_EQ(of("{" + a + "'operators': [3], " + rates + "}"),
            "devices: /devices/0/operators/0 is 3; it must be an operator's name");
  EXPECT_EQ(of("{" + a + "'profile': {'profile': 1}}"),
            "devices: /devices/0/profile is none: profile: the file must have \"profile\": 2");
  const std::string one = "{" + a + rates + "}";
  EXPECT_EQ(of(one + ", " + one), "devices: /devices/1/name is \"a\", as another's; it must be its own");
  std::string many = one;
  for (int i = 0; i < 16; ++i) many += ", " + one;
  EXPECT_NE(of(many).find("it must be a list of 1 to 16 devices"), std::string::npos);
}

}  // namespace
}  // namespace inlay::exec::test
