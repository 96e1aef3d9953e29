// What the library says of its operators, held against the operators themselves.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

#include <inlay/core/version.hpp>
#include "bindings/c/words.hpp"
#include "tests/bindings/tensor.hpp"
#include "tests/fuzz/operators/every.hpp"

namespace inlay::test {
namespace {

inlay_field field_at(const char* op, std::size_t i) {
  inlay_field field{};
  field.size = sizeof field;
  EXPECT_EQ(inlay_field_at(op, i, &field), INLAY_OK) << inlay_message();
  return field;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (std::size_t i = 0; inlay_op_name(i) != nullptr; ++i) all.push_back(inlay_op_name(i));
  return all;
}

// Of every operator that there is, but for the skeleton, which is there to be copied.
template <class Op> class Rows : public ::testing::Test {};
TYPED_TEST_SUITE(Rows, fuzz::EveryOperator, fuzz::OperatorNames);

TYPED_TEST(Rows, have_the_fields_of_the_operator) {
  using Op = TypeParam;
  const std::vector<std::string> all = names();
  const auto count_of = std::count(all.begin(), all.end(), Op::name);
  EXPECT_EQ(count_of, Op::name == "skeleton" ? 0 : 1) << "bindings/c/ops_*.cpp lists it " << count_of << " times";
  if (count_of == 0) return;
  const std::string name(Op::name);
  std::size_t count = 0, i = 0;
  ASSERT_EQ(inlay_field_count(name.c_str(), &count), INLAY_OK);
  EXPECT_EQ(count, Op::fields.count);
  const Op made{};
  for_each_field(made, [&](const auto& declared, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    const inlay_field field = field_at(name.c_str(), i++);
    SCOPED_TRACE(field.name);
    EXPECT_EQ(field.name, declared.name);
    EXPECT_EQ(field.size, sizeof field);
    EXPECT_EQ(field.role == INLAY_OUT || field.role == INLAY_OPTIONAL_OUT || field.role == INLAY_INOUT,
              declared.is_written());
    EXPECT_EQ(field.role == INLAY_OPTIONAL_IN || field.role == INLAY_OPTIONAL_OUT, declared.is_optional());
    EXPECT_EQ(field.role == INLAY_SCALAR, declared.role == Role::scalar);
    EXPECT_EQ(field.role == INLAY_IN_LIST, declared.is_list());
    EXPECT_EQ(field.words != nullptr, field.kind == INLAY_WORD);
    if constexpr (ViewLike<T>) {
      EXPECT_EQ(field.kind, INLAY_TENSOR);
      EXPECT_EQ(field.rank, T::rank);
    } else if constexpr (ListOfViews<T>) {
      EXPECT_EQ(field.kind, INLAY_LIST);
      EXPECT_EQ(field.rank, T::value_type::rank);
    } else if constexpr (std::is_same_v<T, bool>) {
      EXPECT_EQ(field.kind, INLAY_FLAG);
      EXPECT_EQ(field.default_integer, value);
    } else if constexpr (std::is_same_v<T, float>) {
      EXPECT_EQ(field.kind, INLAY_NUMBER);
      EXPECT_EQ(field.default_number, static_cast<double>(value));
    } else if constexpr (std::is_enum_v<T>) {
      EXPECT_EQ(field.kind, INLAY_WORD);
      ASSERT_NE(field.default_word, nullptr);
      bool among_them = false;
      for (const char* const* word = field.words; *word != nullptr; ++word)
        among_them |= std::string(*word) == field.default_word;
      EXPECT_TRUE(among_them);
    } else {
      EXPECT_EQ(field.kind, INLAY_INTEGER);
      EXPECT_EQ(field.default_integer, value);
    }
  });
  inlay_field behind{};
  behind.size = sizeof behind;
  EXPECT_EQ(inlay_field_at(name.c_str(), count, &behind), INLAY_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(inlay_message()),
            name + ": there is no field " + std::to_string(count) + "; it must be below " + std::to_string(count));
}

TEST(introspection, names_are_counted_and_each_has_one) {
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(all.size(), inlay_op_count());
  EXPECT_EQ(inlay_op_name(SIZE_MAX), nullptr);
  EXPECT_EQ(inlay_abi(), INLAY_ABI);
  EXPECT_STREQ(inlay_version(), INLAY_VERSION);
}

TEST(introspection, a_field_fits_older_and_newer_headers) {
  struct Newer {
    inlay_field known;
    int64_t more;
  } field;
  std::memset(static_cast<void*>(&field), 0x5a, sizeof field);
  field.known.size = offsetof(inlay_field, rank);
  ASSERT_EQ(inlay_field_at("rms_norm", 6, &field.known), INLAY_OK) << inlay_message();
  EXPECT_EQ(std::string(field.known.name), "eps");
  EXPECT_EQ(field.known.kind, INLAY_NUMBER);
  EXPECT_EQ(field.known.rank, 0x5a5a5a5a) << "written behind its end";
  field.known.size = sizeof field;
  ASSERT_EQ(inlay_field_at("rms_norm", 6, &field.known), INLAY_OK) << inlay_message();
  EXPECT_EQ(field.known.default_number, static_cast<double>(1e-5f));
  EXPECT_EQ(field.more, 0);
  EXPECT_EQ(field.known.size, sizeof field);
  field.known.size = 0;
  EXPECT_EQ(inlay_field_at("rms_norm", 6, &field.known), INLAY_INVALID_ARGUMENT);
}

// The name that the compiler has for a value: "E::one", or "(E)7" where there is no enumerator.
template <auto value> constexpr std::string_view spelled() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("value = ") + 8);
  return name.substr(0, name.find_first_of(";]"));
}
template <class E, std::size_t... i> void expect_a_word_for_each(std::index_sequence<i...>) {
  std::size_t enumerators = 0;
  (
      [&] {
        constexpr std::string_view name = spelled<static_cast<E>(i)>();
        if (name.front() == '(') return;
        ++enumerators;
        const char* const word = c::word_of(static_cast<E>(i));
        ASSERT_NE(word, nullptr) << name << " has no word in bindings/c/words.hpp";
        EXPECT_EQ(word, name.substr(name.rfind(':') + 1));
      }(),
      ...);
  EXPECT_EQ(enumerators, c::word_count<E>);
}

TEST(introspection, every_enumerator_has_its_word) {
  constexpr auto some = std::make_index_sequence<64>{};
  expect_a_word_for_each<BiasOrder>(some);
  expect_a_word_for_each<AttentionCompute>(some);
  expect_a_word_for_each<LinearCompute>(some);
  expect_a_word_for_each<W4Compute>(some);
  expect_a_word_for_each<GeluForm>(some);
  expect_a_word_for_each<MoeScore>(some);
  expect_a_word_for_each<MoeGroupScore>(some);
  expect_a_word_for_each<GgmlType>(some);
  expect_a_word_for_each<c::FloatType>(some);
}

}  // namespace
}  // namespace inlay::test
