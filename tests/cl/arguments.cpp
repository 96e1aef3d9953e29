// The arguments of every kernel: buffers, then one struct by value. What a struct holds is read from the headers that
// host and device compile, and held against what the device says of its kernels and makes of the structs.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/add.clh"
#include "cl_kernels/attention/problem.clh"
#include "cl_kernels/runtime/launch.hpp"
#include "cl_kernels/runtime/sources.hpp"
#include "tests/support/files.hpp"
#include "tests/support/requirements.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::test {
namespace {

struct Member {
  std::string name;
  std::size_t bytes, offset;
};
struct Struct {
  std::vector<std::string> buffers = {};  // whose begins it begins with
  std::vector<Member> members = {};
  std::size_t bytes = 0;
};
using Structs = std::map<std::string, Struct>;

std::string replaced(const std::string& text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

// All files below cl_kernels whose name ends so, by their path there.
std::map<std::string, std::string> files(std::string_view suffix) {
  const std::string root = source_path("cl_kernels");
  std::map<std::string, std::string> all;
  for (const auto& each : std::filesystem::recursive_directory_iterator(root))
    if (const std::string path = each.path().string(); path.ends_with(suffix))
      all[path.substr(root.size() + 1)] = exec::test::read_text(path);
  return all;
}

// What host and device share, without the lines for preprocessors.
std::string shared_text() {
  std::string all;
  for (const auto& [path, text] : files(".clh"))
    if (text.find("\nBEGIN_SHARED_WITH_HOST\n") != std::string::npos) all += replaced(text, "(^|\n)#[^\n]*", "");
  return all;
}

// Members lie one behind the other: what would be padded is an error of the struct.
Structs read_structs(const std::string& shared) {
  Structs structs;
  const std::string text = replaced(shared, "//[^\n]*", "");
  const std::regex of_struct("typedef struct (\\w+) \\{([^}]*)\\} (\\w+);"), word("\\w+");
  for (std::sregex_iterator s(text.begin(), text.end(), of_struct), end; s != end; ++s) {
    const std::string name = (*s)[1], body = replaced((*s)[2], "\\)", ");");
    EXPECT_EQ(name, (*s)[3]);
    Struct& all = structs[name];
    const auto add = [&](const std::string& member, std::size_t bytes) {
      EXPECT_EQ(all.bytes % std::min<std::size_t>(bytes, 8), 0u) << name << "." << member << " is padded";
      all.members.push_back({member, bytes, all.bytes});
      all.bytes += bytes;
    };
    const std::regex declaration("\\s*(BUFFER\\((\\w+)\\)|SPARE|(\\w+)\\s+([^;]*));?");
    std::string rest = replaced(body, "SPARE", "SPARE;");
    for (std::sregex_iterator d(rest.begin(), rest.end(), declaration); d != end; ++d) {
      const std::string whole = (*d)[1], type = (*d)[3], names = (*d)[4];
      if (whole == "SPARE") {
        add("spare", 4);
      } else if (whole.starts_with("BUFFER(")) {
        EXPECT_EQ(all.buffers.size(), all.members.size()) << name << ": begins come first";
        all.buffers.push_back((*d)[2]);
        add(std::string((*d)[2]) + "_begin", 8);
      } else {
        const std::size_t bytes = type == "Long" ? 8 : type == "Int" || type == "Float" ? 4 : structs[type].bytes;
        EXPECT_NE(bytes, 0u) << name << " holds a " << type;
        for (std::sregex_iterator n(names.begin(), names.end(), word); n != end; ++n) add(n->str(), bytes);
      }
    }
    EXPECT_EQ(all.bytes % 8, 0u) << name << " is padded at its end";
  }
  return structs;
}

class ClArguments : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Cl::make({.shape = ClShape::per_item, .build_options = "-cl-kernel-arg-info"});
    INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
    cl_.emplace(std::move(*made));
  }

  static std::string info(cl_kernel kernel, cl_uint argument, cl_kernel_arg_info what) {
    char text[128] = {};
    EXPECT_EQ(clGetKernelArgInfo(kernel, argument, what, sizeof text, text, nullptr), CL_SUCCESS);
    return text;
  }

  void check_kernel(cl_kernel kernel, const std::string& name) {
    SCOPED_TRACE(name);
    cl_uint count = 0;
    ASSERT_EQ(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr), CL_SUCCESS);
    ASSERT_GE(count, 2u);
    const cl_uint last = count - 1;
    EXPECT_EQ(info(kernel, last, CL_KERNEL_ARG_NAME), "args");
    const std::string type = info(kernel, last, CL_KERNEL_ARG_TYPE_NAME);
    ASSERT_TRUE(structs_.contains(type)) << type;
    const Struct& arguments = structs_[type];
    std::vector<std::string> buffers;
    for (cl_uint i = 0; i < last; ++i) {
      cl_kernel_arg_address_qualifier space = 0;
      EXPECT_EQ(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, nullptr),
                CL_SUCCESS);
      const std::string buffer = info(kernel, i, CL_KERNEL_ARG_NAME);
      EXPECT_EQ(space, static_cast<cl_kernel_arg_address_qualifier>(CL_KERNEL_ARG_ADDRESS_GLOBAL)) << buffer;
      EXPECT_TRUE(info(kernel, i, CL_KERNEL_ARG_TYPE_NAME).ends_with("*")) << buffer;
      if (buffer == cl::faults)
        EXPECT_EQ(i, last - 1) << "faults are the last buffer";
      else
        buffers.push_back(buffer);
    }
    EXPECT_EQ(arguments.buffers, buffers);
    // CL_DEVICE_MAX_PARAMETER_SIZE is no less.
    EXPECT_LE(arguments.bytes + last * sizeof(void*), 1024u);
  }

  std::optional<Cl> cl_;
  Structs structs_ = read_structs(shared_text());
};

TEST_F(ClArguments, kernels_take_a_struct_and_its_buffers) {
  // Beside a source's defaults, what brings out its other kernels.
  const std::map<std::string, std::vector<std::string>> more{{"embedding", {"-D BLOCKS=1 -D Y=f16"}},
                                                             {"linear", {"-D W=f16 -D PACKED=1 -D ROWS=8"}},
                                                             {"linear_w4a16", {"-D PREPARES=1"}}};
  std::set<std::string> declared, seen;
  const std::regex kernel("(?:^|\n)kernel\\s+(?:__attribute__\\(\\([^)]*\\)\\)\\)\\s+)?void (\\w+)\\(");
  for (std::string_view suffix : {".cl", ".clh"})
    for (const auto& [path, text] : files(suffix))
      if (!path.starts_with("runtime/"))
        for (std::sregex_iterator k(text.begin(), text.end(), kernel), end; k != end; ++k) declared.insert((*k)[1]);
  for (const auto& [path, text] : files(".cl")) {
    if (path.starts_with("runtime/")) continue;
    const std::string stem = path.substr(0, path.size() - 3);
    std::vector<std::string> programs{""};
    if (const auto found = more.find(stem); found != more.end())
      programs.insert(programs.end(), found->second.begin(), found->second.end());
    for (const std::string& definitions : programs)
      for (const char* shape : {"-D PER_ITEM=1 -D LANES=1 ", "-D PER_GROUP=1 -D LANES=128 "}) {
        // `pack` is the per-item shape's, the tile of the per-group shape has lanes of its own.
        if (stem == "linear" && definitions != "" && shape[3] == 'G') continue;
        SCOPED_TRACE(stem + " " + shape + definitions);
        auto program = cl_->runtime().programs().build(
            cl::source(stem), "-cl-std=CL1.2 -cl-opt-disable -cl-kernel-arg-info -D FP64=1 " + (shape + definitions),
            stem);
        ASSERT_TRUE(program.has_value()) << program.error().message();
        cl_uint count = 0;
        ASSERT_EQ(clCreateKernelsInProgram(*program, 0, nullptr, &count), CL_SUCCESS);
        std::vector<cl_kernel> kernels(count);
        ASSERT_EQ(clCreateKernelsInProgram(*program, count, kernels.data(), nullptr), CL_SUCCESS);
        for (cl_kernel each : kernels) {
          char name[64] = {};
          EXPECT_EQ(clGetKernelInfo(each, CL_KERNEL_FUNCTION_NAME, sizeof name, name, nullptr), CL_SUCCESS);
          seen.insert(name);
          check_kernel(each, name);
          clReleaseKernel(each);
        }
        clReleaseProgram(*program);
      }
  }
  EXPECT_EQ(seen, declared);
}

// Sizes and offsets of the device's compiler are those that members side by side have.
TEST_F(ClArguments, structs_have_one_layout) {
  const std::string shared = shared_text();
  ASSERT_GT(structs_.size(), 40u);
  std::string text =
      "typedef long Long; typedef int Int; typedef float Float;\n#define BUFFER(name) Long name##_begin;\n"
      "#define SPARE Int spare;\n#define KERNEL_ARGUMENTS(Struct)\n#define BEGIN_SHARED_WITH_HOST\n"
      "#define END_SHARED_WITH_HOST\n" +
      shared + "kernel void layout(global int* y) {\n";
  std::vector<std::pair<std::string, std::size_t>> expected;
  const auto write = [&](const std::string& what, const std::string& expression, std::size_t value) {
    text += "y[" + std::to_string(expected.size()) + "] = (int)" + expression + ";\n";
    expected.emplace_back(what, value);
  };
  for (const auto& [name, all] : structs_) {
    text += "{ " + name + " s; const uchar* begin = (const uchar*)&s;\n";
    write(name, "sizeof s", all.bytes);
    for (const Member& member : all.members)
      write(name + "." + member.name, "((const uchar*)&s." + member.name + " - begin)", member.offset);
    text += "}\n";
  }
  auto program = cl_->runtime().programs().build(text + "}\n", "-cl-std=CL1.2 -cl-opt-disable", "layout");
  ASSERT_TRUE(program.has_value()) << program.error().message();
  cl::Kernel kernel(clCreateKernel(*program, "layout", nullptr));
  clReleaseProgram(*program);
  std::vector<cl_int> got(expected.size());
  ASSERT_TRUE(cl::run_probe(cl_->context(), cl_->queue(), kernel, 1, got.data(), got.size() * sizeof(cl_int)));
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(static_cast<std::size_t>(got[i]), expected[i].second) << expected[i].first;
  // The host's: KERNEL_ARGUMENTS holds it to what has no padding; the largest in numbers.
  EXPECT_EQ(sizeof(cl::AttentionArguments), structs_["AttentionArguments"].bytes);
  EXPECT_EQ(sizeof(cl::Sequence), structs_["Sequence"].bytes);
}

// A launcher that has an order of its own in mind is told.
TEST_F(ClArguments, a_wrong_order_is_refused) {
  const ClAddress buffer = *cl_->allocate(1024);
  const View<2, Cl> floats{buffer, DType::f32, {1, 8}}, ints{buffer, DType::i32, {1, 8}};
  const auto launch = [&](std::initializer_list<cl::NamedBuffer> buffers) {
    return cl::launch(*cl_, cl::ProgramKey("add").number("LANES", 1).type("A", DType::f32).type("B", DType::f32), "add",
                      {.groups = {1}, .lanes = {1}},
                      cl::AddArguments{.a_stride = 8, .b_stride = 8, .y_stride = 8, .dim = 8}, buffers);
  };
  EXPECT_EQ(launch({{"b", floats}, {"a", floats}, {"y", floats}}).message(),
            "argument 0 of OpenCL kernel add is float* a; the launcher passes float* b");
  EXPECT_EQ(launch({{"a", floats}, {"b", ints}, {"y", floats}}).message(),
            "argument 1 of OpenCL kernel add is float* b; the launcher passes int* b");
  EXPECT_EQ(launch({{"a", floats}, {"b", floats}}).message(),
            "OpenCL kernel add has 4 arguments; the launcher passes 3");
  EXPECT_TRUE(launch({{"a", floats}, {"b", floats}, {"y", floats}}).ok());
  EXPECT_TRUE(finish(*cl_).ok());
  cl_->release(buffer);
}

}  // namespace
}  // namespace inlay::test
