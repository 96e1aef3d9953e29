#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <inlay/model/fused_linears.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace inlay::exec {

namespace {

using Float = LinearWeight::Float;
using Int8 = LinearWeight::Int8;

constexpr index panel = 16;  // channels
static_assert(panel == linear_panel && panel == linear_int8::panel && panel == w4_panel);

bool alike(const Float& a, const Float& b) {
  const View<3>&x = a.packed.view(), &y = b.packed.view();
  return x.dtype == y.dtype && x.extents[1] == y.extents[1] && x.extents[2] == y.extents[2];
}
bool alike(const Int8& a, const Int8& b) { return a.packed.view().extents[1] == b.packed.view().extents[1]; }
bool alike(const PackedW4& a, const PackedW4& b) {
  const bool zeros = a.zeros.size() != 0, offsets = a.offsets.size() != 0;
  return a.k == b.k && a.slots == b.slots && a.group == b.group && a.bits == b.bits && a.scale_type == b.scale_type &&
         zeros == (b.zeros.size() != 0) && (!zeros || a.zero_type == b.zero_type) &&
         offsets == (b.offsets.size() != 0) && a.codebook == b.codebook && a.perm == b.perm;
}
bool alike(const LinearWeight& a, const LinearWeight& b) {
  if (a.bias.present() != b.bias.present() || (a.bias.present() && a.bias.dtype != b.bias.dtype)) return false;
  return std::visit(
      [&]<class Form>(const Form& form) {
        const auto* other = std::get_if<Form>(&b.form());
        return other != nullptr && alike(form, *other);
      },
      a.form());
}

bool can_be_joined(const std::vector<LinearWeight>& parts, std::size_t max_bytes) {
  std::size_t bytes = 0;
  for (const LinearWeight& part : parts) bytes += part.bytes();
  return parts.size() > 1 && bytes <= max_bytes &&
         std::all_of(parts.begin(), parts.end(), [&](const auto& part) { return alike(part, parts.front()); }) &&
         std::all_of(parts.begin(), parts.end() - 1, [](const auto& part) { return part.channels() % panel == 0; });
}

template <class Form> using Parts = std::vector<Form*>;

// One member of all parts, one after another.
template <int Rank, class Form>
Status append(const Parts<Form>& parts, OwnedTensor<Rank> Form::*member, OwnedTensor<Rank>& whole) {
  const View<Rank> first = parts.front()->*member;
  std::array<index, Rank> extents = first.extents;
  extents[0] = 0;
  for (const Form* part : parts) extents[0] += (part->*member).view().extents[0];
  auto made = OwnedTensor<Rank>::make(first.dtype, extents);
  if (!made) return std::move(made.error());
  index row = 0;
  for (Form* part : parts) {
    const View<Rank> from = part->*member;
    const View<Rank> to = made->view().slice(0, row, from.extents[0]);
    if (!from.empty()) std::memcpy(to.data, from.data, static_cast<std::size_t>(byte_size(from.dtype, from.size())));
    row += from.extents[0];
    part->*member = {};
  }
  whole = std::move(*made);
  return {};
}
void append(const Parts<PackedW4>& parts, AlignedBytes PackedW4::*member, AlignedBytes& whole) {
  std::size_t bytes = 0;
  for (const PackedW4* part : parts) bytes += (part->*member).size();
  whole = AlignedBytes(bytes);
  std::byte* to = whole.data();
  for (PackedW4* part : parts) {
    const std::size_t some = (part->*member).size();
    if (some != 0) std::memcpy(to, (part->*member).data(), some);
    to += some;
    part->*member = {};
  }
}

Status append(const Parts<Float>& parts, Float& whole) { return append(parts, &Float::packed, whole.packed); }
Status append(const Parts<Int8>& parts, Int8& whole) {
  if (Status status = append(parts, &Int8::packed, whole.packed); !status) return status;
  if (Status status = append(parts, &Int8::sums, whole.sums); !status) return status;
  return append(parts, &Int8::scales, whole.scales);
}
Status append(const Parts<PackedW4>& parts, PackedW4& whole) {
  whole = parts.front()->without_panels();
  whole.n = 0;
  for (const PackedW4* part : parts) whole.n += part->n;
  for (auto member : PackedW4::by_panel) append(parts, member, whole.*member);
#if defined(__GLIBC__)
  // The parts lay between weights that stay, and malloc keeps such memory: 60 MB of llama3.2-1b in 4 bits.
  malloc_trim(0);
#endif
  return {};
}

// Nothing where there is none.
Expected<ConstView<1>> joined_bias(const std::vector<LinearWeight>& parts, index n,
                                   std::vector<OwnedTensor<1>>& vectors) {
  if (!parts.front().bias.present()) return ConstView<1>();
  auto made = OwnedTensor<1>::make(parts.front().bias.dtype, {n});
  if (!made) return failure(std::move(made.error()));
  const auto element = static_cast<std::size_t>(byte_size(made->view().dtype, 1));
  auto* to = static_cast<std::byte*>(made->view().data);
  for (const LinearWeight& part : parts)
    for (index i = 0; i < part.channels(); ++i, to += element) std::memcpy(to, part.bias.slice(0, i, 1).data, element);
  vectors.push_back(std::move(*made));
  return ConstView<1>(vectors.back());
}

// All forms of the parts, one behind the other.
Expected<LinearWeight::Form> append(std::vector<LinearWeight>& parts) {
  return std::visit(
      [&]<class Form>(const Form&) -> Expected<LinearWeight::Form> {
        Parts<Form> forms;
        for (LinearWeight& part : parts) forms.push_back(&std::get<Form>(part.form()));
        Form whole;
        if (Status status = append(forms, whole); !status) return failure(std::move(status));
        return LinearWeight::Form(std::move(whole));
      },
      parts.front().form());
}

}  // namespace

Expected<LinearWeight> stacked(std::vector<LinearWeight> experts) {
  const index n = experts.front().channels(), count = static_cast<index>(experts.size());
  for (const LinearWeight& each : experts)
    if (!alike(each, experts.front()) || each.channels() != n)
      return failure(StatusCode::unsupported, "the weights of experts differ in type, group or order of inputs");
  auto whole = append(experts);
  if (!whole) return failure(std::move(whole.error()));
  if (auto* codes = std::get_if<PackedW4>(&*whole)) codes->n = count * w4_panels(n) * w4_panel;  // whole panels
  return LinearWeight(n, std::move(*whole), count);
}

Expected<std::vector<LinearWeight>> joined(std::vector<LinearWeight> parts, std::vector<OwnedTensor<1>>& vectors,
                                           std::size_t max_bytes) {
  if (!can_be_joined(parts, max_bytes)) return parts;
  index n = 0;
  for (const LinearWeight& part : parts) n += part.channels();
  auto bias = joined_bias(parts, n, vectors);
  if (!bias) return failure(std::move(bias.error()));
  auto whole = append(parts);
  if (!whole) return failure(std::move(whole.error()));
  std::vector<LinearWeight> one;
  one.emplace_back(n, std::move(*whole)).bias = *bias;
  return one;
}

}  // namespace inlay::exec
