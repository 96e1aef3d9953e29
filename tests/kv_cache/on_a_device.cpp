// What only a device meets: slots that many tokens name at once, pairs and slots that no host has checked, and blocks
// that go between its memory and the host's.
#include "tests/kv_cache/case.hpp"

namespace inlay::test {
namespace {

// More tokens than look through each other: slots have owners.
TEST(kv_cache, of_hundreds_of_tokens_in_one_slot_the_last_stays) {
  Rng rng(21);
  for (DType cache : {DType::f16, DType::i8})
    for (index tokens : {256, 257, 700})
      for (index slots : {1, 3, 40, 600}) {
        Case c = make(DType::f32, cache, Pages::vllm,
                      {.tokens = 3 * tokens, .block_size = 16, .heads = 2, .key_dim = 16, .value_dim = 5}, {}, rng);
        c.fused = Tensor<3>(DType::f32, {tokens, 3, 22}).uniform(rng);
        c.slots = Tensor<1>(DType::i64, {tokens}).integers(rng, -2, slots - 1);
        SCOPED_TRACE(describe(cache, "tokens", tokens, "slots", slots));
        const Case right = written(c);
        on_every_backend([&](const std::string&, auto run) {
          Case got = c;
          ASSERT_TRUE(ok(run(got.op())));
          expect_same_memory(got, right);
        });
      }
}

#ifdef INLAY_TESTS_CL

// Operands in a device's memory; given back at the end.
class OnClDevice {
 public:
  explicit OnClDevice(WatchedCl& watched) : watched_(watched) {}

  template <int Rank> View<Rank, Cl> put(const Tensor<Rank>& host) {
    const ConstView<Rank> view = host;
    const auto bytes = static_cast<std::size_t>(byte_size(view.dtype, view.size()));
    auto made = Allocation<WatchedCl>::make(watched_, bytes);
    EXPECT_TRUE(made && watched_.upload(made->data(), {static_cast<const std::byte*>(view.data), bytes}).ok());
    memory_.push_back(std::move(*made));
    return {memory_.back().data(), view.dtype, view.extents};
  }
  template <int Rank> Tensor<Rank> get(const View<Rank, Cl>& view) {
    Tensor<Rank> host(view.dtype, view.extents);
    const View<Rank> to = host;
    EXPECT_TRUE(
        watched_
            .download({static_cast<std::byte*>(to.data), static_cast<std::size_t>(byte_size(view.dtype, view.size()))},
                      view.data)
            .ok());
    return host;
  }
  template <class Op> Status run(const Op& op) {
    return inlay::run(watched_.cl(), op, [&](std::size_t bytes) {
      auto made = Allocation<WatchedCl>::make(watched_, bytes);
      memory_.push_back(std::move(*made));
      return SpaceWorkspace<Cl>{memory_.back().data(), bytes};
    });
  }
  Status finish() { return watched_.cl().finish(); }

 private:
  WatchedCl& watched_;
  std::vector<Allocation<WatchedCl>> memory_;
};

template <class Test> void on_every_cl_device(Test&& test) {
  for (WatchedCl& watched : cl_devices_to_test()) {
    SCOPED_TRACE(watched.label());
    OnClDevice device(watched);
    test(device);
  }
}

void expect_words(const Status& status, std::initializer_list<std::string_view> words) {
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  for (std::string_view word : words)
    EXPECT_NE(status.message().find(word), std::string_view::npos) << status.message() << " lacks " << word;
}

Tensor<5> numbered(index blocks) {
  Tensor<5> cache(DType::f32, {blocks, 2, 1, 3, 8});
  for (index k = 0; k < cache.size(); ++k) cache.set(k, static_cast<double>(k));
  return cache;
}

// The token of a bad slot is not written, the others are.
TEST(kv_cache, a_bad_slot_in_device_memory_is_told) {
  for (index bad : {index{15}, index{16}, index{1} << 40, std::numeric_limits<index>::max()})
    for (DType type : {DType::f32, DType::i8})
      on_every_cl_device([&](OnClDevice& device) {
        Tensor<3> key(DType::f32, {3, 2, 8}), scales(DType::f32, {5, 2, 3});
        for (index k = 0; k < key.size(); ++k) key.set(k, static_cast<double>(k / 16 + 1));
        Tensor<5> cache(type, {5, 2, 1, 3, 8});
        cache.fill(untouched), scales.fill(untouched);
        Tensor<1> slots(DType::i64, {3});
        const std::int64_t list[] = {4, bad, -3};
        std::copy_n(list, 3, slots.data<std::int64_t>());
        ReshapeAndCache<Cl> op{.k = device.put(key), .k_cache = device.put(cache), .slot_mapping = device.put(slots)};
        if (type == DType::i8) op.k_scale = device.put(scales);
        ASSERT_TRUE(ok(device.run(op)));
        expect_words(device.finish(), {"reshape_and_cache: slot_mapping[1] is " + std::to_string(bad), "below 15"});
        EXPECT_TRUE(ok(device.finish()));
        const Tensor<5> got = device.get(op.k_cache);
        for (index k = 0; k < got.size(); ++k) {
          const bool named = k / 48 == 1 && k / 8 % 3 == 1;  // slot 4: the second of block 1
          ASSERT_EQ(got.get(k), !named ? untouched : type == DType::i8 ? 127 : 1) << k;
        }
      });
}

// Pairs that check would have refused: theirs is not copied, and the first that is met is told.
TEST(kv_cache, bad_pairs_in_device_memory_are_told) {
  struct Bad {
    std::vector<std::int64_t> pairs;
    std::vector<index> copied;  // pairs that are
    std::string_view word;
  };
  for (const Bad& bad :
       {Bad{{0, 1, 2, 5}, {0}, "pairs[1] has the target 5; it must be in 0..4"},
        Bad{{0, 1, -1, 3}, {0}, "pairs[1] has the source -1; it must be in 0..4"},
        Bad{{0, 1, index{1} << 50, 3}, {0}, "pairs[1] has the source 1125899906842624"},
        Bad{{0, -7, 2, 3}, {1}, "pairs[0] has the target -7"}, Bad{{0, 1, 2, 1}, {1}, "pairs has the target 1 twice"},
        Bad{{0, 1, 1, 2}, {0}, "pairs[1] has the source 1, which is a target too"},
        Bad{{3, 3, 0, 1}, {1}, "pairs[0] has the source 3, which is a target too"}})
    on_every_cl_device([&](OnClDevice& device) {
      SCOPED_TRACE(bad.word);
      const Tensor<5> start = numbered(5);
      Tensor<5> right = start;
      for (index i : bad.copied)
        for (index k = 0; k < 48; ++k) right.set(bad.pairs[2 * i + 1] * 48 + k, start.get(bad.pairs[2 * i] * 48 + k));
      Tensor<2> pairs(DType::i64, {2, 2});
      std::copy(bad.pairs.begin(), bad.pairs.end(), pairs.data<std::int64_t>());
      const CopyBlocks<Cl> op{.k_cache = device.put(start), .pairs = device.put(pairs)};
      ASSERT_TRUE(ok(device.run(op)));
      expect_words(device.finish(), {"copy_blocks: ", bad.word});
      EXPECT_TRUE(ok(device.finish()));
      EXPECT_EQ(device.get(op.k_cache), right);
    });
}

TEST(kv_cache, swap_blocks_between_host_and_device) {
  const std::int64_t list[] = {0, 2, 3, 0, 3, 1};
  const ConstView<2> pairs(list, {3, 2});
  Tensor<5> source = numbered(4), target(DType::f32, {3, 2, 1, 3, 8});
  target.fill(untouched);
  Tensor<5> right = target;
  for (index i = 0; i < 3; ++i)
    for (index k = 0; k < 48; ++k) right.set(list[2 * i + 1] * 48 + k, source.get(list[2 * i] * 48 + k));
  // One head of two: runs that are no whole block.
  Tensor<5> right_of_head = target;
  for (index k = 0; k < right.size(); ++k)
    if (k / 24 % 2 == 1) right_of_head.set(k, right.get(k));
  on_every_cl_device([&](OnClDevice& device) {
    for (bool whole : {true, false}) {
      const auto part = [&](auto view) { return whole ? view : view.slice(1, 1, 1); };
      const Tensor<5>& expected = whole ? right : right_of_head;
      const View<5, Cl> there = device.put(target), from = device.put(source);
      ASSERT_TRUE(ok(device.run(
          SwapBlocks<Host, Cl>{.source = part(ConstView<5>(source)), .target = part(there), .pairs = pairs})));
      EXPECT_EQ(device.get(there), expected);
      Tensor<5> here = target;
      ASSERT_TRUE(ok(device.run(SwapBlocks<Cl, Host>{
          .source = part(ConstView<5, Cl>(from)), .target = part(View<5>(here)), .pairs = pairs})));
      EXPECT_EQ(here, expected);
      const View<5, Cl> other = device.put(target);
      ASSERT_TRUE(ok(device.run(
          SwapBlocks<Cl, Cl>{.source = part(ConstView<5, Cl>(from)), .target = part(other), .pairs = pairs})));
      EXPECT_EQ(device.get(other), expected);
    }
    const std::int64_t beyond[] = {0, 3};
    EXPECT_EQ(device
                  .run(SwapBlocks<Host, Cl>{
                      .source = source, .target = device.put(target), .pairs = ConstView<2>(beyond, {1, 2})})
                  .code(),
              StatusCode::invalid_argument);
  });
}

#endif

}  // namespace
}  // namespace inlay::test
