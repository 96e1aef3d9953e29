#include "bindings/c/weight.hpp"

#include <memory>

#include <inlay/core/quote.hpp>
#include <inlay/core/text.hpp>

#include "bindings/c/code.hpp"
#include "bindings/c/packers.hpp"
#include "bindings/c/sized.hpp"

namespace inlay::c {

namespace {

Status find(const char* packer, const PackerRow*& found) {
  if (packer == nullptr) return invalid("packer is null; it must be the name of one");
  if ((found = find_packer(packer)) != nullptr) return {};
  Text known;
  for (const PackerRow& row : packers) known += Text(known.empty() ? "" : " ") + row.name;
  return invalid("there is no packer " + Text(quote(packer)) + "; it must be one of " + known);
}

Status pack(const inlay_backend* backend, const char* packer, const inlay_argument* arguments, std::size_t count,
            inlay_weight** result) {
  if (result == nullptr) return invalid("weight is null; it must be where the weight is put");
  *result = nullptr;
  if (backend == nullptr) return invalid("backend is null; it must be one that inlay_backend_open gave");
  const PackerRow* row = nullptr;
  if (Status status = find(packer, row); !status.ok()) return status;
  if (arguments == nullptr && count > 0)
    return about(row->name, invalid("arguments is null; it must point to " + number(count)));
  auto weight = std::make_unique<inlay_weight>();
  Status status = compute_on(
      *backend, [&](const Computing& computing) { return row->pack(computing, Arguments(arguments, count), *weight); });
  if (!status.ok()) return about(row->name, status);
  *result = weight.release();
  return {};
}

Status describe(const inlay_weight* weight, inlay_weight_info* result) {
  if (weight == nullptr) return invalid("weight is null; it must be one that inlay_weight_pack gave");
  const inlay_weight_info info{.size = sizeof(inlay_weight_info),
                               .op = weight->op,
                               .arguments = weight->call.arguments.data(),
                               .argument_count = weight->call.arguments.size(),
                               .n = weight->n,
                               .k = weight->k,
                               .bytes = static_cast<int64_t>(weight->bytes())};
  using I = inlay_weight_info;
  return write_sized("inlay_weight_info", info, result,
                     {INLAY_MEMBER(I, size), INLAY_MEMBER(I, op), INLAY_MEMBER(I, arguments),
                      INLAY_MEMBER(I, argument_count), INLAY_MEMBER(I, n), INLAY_MEMBER(I, k), INLAY_MEMBER(I, bytes)});
}

}  // namespace

}  // namespace inlay::c

inlay_code inlay_weight_pack(const inlay_backend* backend, const char* packer, const inlay_argument* arguments,
                             size_t count, inlay_weight** weight) {
  return inlay::c::guarded([&] { return inlay::c::pack(backend, packer, arguments, count, weight); });
}
inlay_code inlay_weight_describe(const inlay_weight* weight, inlay_weight_info* info) {
  return inlay::c::guarded([&] { return inlay::c::describe(weight, info); });
}
void inlay_weight_close(inlay_weight* weight) { delete weight; }

size_t inlay_packer_count(void) { return inlay::c::packers.size(); }
const char* inlay_packer_name(size_t i) { return i < inlay::c::packers.size() ? inlay::c::packers[i].name : nullptr; }
