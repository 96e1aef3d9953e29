// Rows of what a contract refuses: a good operator, a change of it, and what the Status must say.
//
//   const Refused refused(c.op());
//   refused([&](auto& op) { op.softcap = -1; }, {"softcap", "-1"});   the parameter, its value, what it must be
#pragma once

#include <cstring>
#include <functional>

#include "tests/support/backends.hpp"

namespace inlay::test {

template <class Op> class Refused {
 public:
  // `good` is what every row begins with; also(op) runs what is refused wherever else nothing may be written.
  explicit Refused(Op good, std::type_identity_t<std::function<void(const Op&)>> also = {})
      : good_(std::move(good)), also_(std::move(also)) {
    EXPECT_TRUE(ok(check(good_)));
  }

  // Neither the reference nor the CPU writes an element of good's outputs.
  template <class Change>
  void operator()(Change&& change, std::initializer_list<std::string_view> words,
                  const Where& where = Where::current()) const {
    SCOPED_TRACE(where.file_name() + (":" + std::to_string(where.line())));
    Op op = good_;
    change(op);
    expect_refused(op, words);
    const std::vector<double> before = written();
    Reference reference;
    EXPECT_EQ(run(reference, op).code(), StatusCode::invalid_argument);
    const Cpu cpu(serial());
    EXPECT_EQ(run(cpu, op, Workspace{}).code(), StatusCode::invalid_argument);
    if (also_) also_(op);
    const std::vector<double> after = written();
    EXPECT_TRUE(before.empty() || std::memcmp(before.data(), after.data(), before.size() * sizeof(double)) == 0)
        << "an output was written";
  }
  // What differs from a refused row by little, and is let pass.
  template <class Change> void allows(Change&& change, const Where& where = Where::current()) const {
    SCOPED_TRACE(where.file_name() + (":" + std::to_string(where.line())));
    Op op = good_;
    change(op);
    EXPECT_TRUE(ok(check(op)));
  }

 private:
  // Every element of every output.
  std::vector<double> written() const {
    std::vector<double> elements;
    for_each_field(good_, [&](const auto& field, const auto& view) {
      if constexpr (ViewLike<std::remove_cvref_t<decltype(view)>>) {
        if (!field.is_written() || !view.present()) return;
        const auto& e = view.extents;
        for (index k = 0; k < view.size(); ++k) {
          index rest = k, where = 0;
          for (int d = static_cast<int>(e.size()) - 1; d >= 0; --d)
            where += rest % e[d] * view.strides[d], rest /= e[d];
          elements.push_back(load_element(view.data, view.dtype, where));
        }
      }
    });
    return elements;
  }

  Op good_;
  std::function<void(const Op&)> also_;
};

}  // namespace inlay::test
