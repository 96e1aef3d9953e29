#include "tools/kernels/python_kernel.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "tools/kernels/kernel.hpp"

namespace inlay::tools {

namespace {

// False where the other end is gone.
bool send_all(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent, size -= static_cast<std::size_t>(sent);
  }
  return true;
}
bool receive_all(int socket, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, at, size, 0);
    if (got <= 0) return false;
    at += got, size -= static_cast<std::size_t>(got);
  }
  return true;
}

// The bytes from a tensor's first element in memory to its last, wherever strides lead.
struct Part {
  std::byte* begin;
  std::size_t bytes;
  std::size_t first;   // where the element at 0, 0, .. lies among them
  std::size_t at = 0;  // where they lie among those of a call: at a multiple of what any element is aligned to
};
constexpr std::size_t alignment = 16;
Part part_of(const DLTensor& tensor) {
  std::int64_t low = 0, high = 0;
  bool empty = false;
  for (int d = 0; d < tensor.ndim; ++d) {
    empty = empty || tensor.shape[d] == 0;
    (tensor.strides[d] < 0 ? low : high) += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  std::byte* const data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (empty) return {data, 0, 0};
  const std::int64_t bits = tensor.dtype.bits;
  return {data + low * bits / 8, static_cast<std::size_t>(((high - low + 1) * bits + 7) / 8),
          static_cast<std::size_t>(-low * bits / 8)};
}

// A call as lines, one for each value, and the bytes of its tensors.
struct Request {
  std::string lines;
  std::vector<Part> parts;
  std::vector<std::byte> bytes;

  void add_tensor(const char* name, const char* kind, const DLTensor& tensor) {
    const auto numbers = [&](const std::int64_t* values) {
      std::string all;
      for (int d = 0; d < tensor.ndim; ++d) all += (d > 0 ? "," : "") + std::to_string(values[d]);
      return all;
    };
    Part part = part_of(tensor);
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    part.at = bytes.size();
    add(name, kind, name_of(tensor.dtype), numbers(tensor.shape), numbers(tensor.strides),
        std::to_string(part.at + part.first));
    parts.push_back(part);
    bytes.insert(bytes.end(), part.begin, part.begin + part.bytes);
  }
  template <class... Words> void add(const char* name, const char* kind, const Words&... words) {
    lines += std::string(name) + " " + kind;
    ((lines += " " + std::string(words)), ...);
    lines += "\n";
  }
  void add(const inlay_argument& argument) {
    char digits[40];
    switch (argument.kind) {
      case INLAY_TENSOR: return add_tensor(argument.name, "tensor", *argument.tensor);
      case INLAY_LIST:
        for (std::size_t i = 0; i < argument.list.count; ++i)
          add_tensor(argument.name, "list", *argument.list.tensors[i]);
        return;
      case INLAY_NUMBER:
        std::snprintf(digits, sizeof digits, "%.17g", argument.number);
        return add(argument.name, "number", digits);
      case INLAY_WORD: return add(argument.name, "word", argument.word);
      case INLAY_FLAG: return add(argument.name, "flag", std::to_string(argument.integer));
      default: return add(argument.name, "integer", std::to_string(argument.integer));
    }
  }
};

// What comes back: a code, and words or the tensors' bytes.
struct Reply {
  std::int64_t code, size;
};

}  // namespace

PythonKernel::PythonKernel(PythonKernel&& other) noexcept
    : file_(std::move(other.file_)),
      function_(std::move(other.function_)),
      socket_(std::exchange(other.socket_, -1)),
      process_(std::exchange(other.process_, -1)) {}

PythonKernel::~PythonKernel() { end(); }

void PythonKernel::end() {
  if (socket_ >= 0) close(socket_);
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  socket_ = process_ = -1;
}

Expected<PythonKernel> PythonKernel::start(const std::string& file, const std::string& function) {
  PythonKernel kernel(file, function);
  if (Status status = kernel.restart(); !status.ok()) return failure(std::move(status));
  return kernel;
}

Status PythonKernel::restart() {
  end();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status(StatusCode::internal, "--kernel: there is no socket for Python");
  process_ = fork();
  if (process_ < 0) {
    close(ends[0]), close(ends[1]);
    return Status(StatusCode::internal, "--kernel: there is no process for Python");
  }
  if (process_ == 0) {
    fcntl(ends[1], F_SETFD, 0);
    const std::string number = std::to_string(ends[1]);
    execlp("python3", "python3", "-m", "inlay._kernel", number.c_str(), file_.c_str(), function_.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  socket_ = ends[0];
  Reply ready{};
  if (!receive_all(socket_, &ready, sizeof ready))
    return Status(StatusCode::not_found, "--kernel is " + Text(file_) +
                                             ", and python3 -m inlay._kernel does not start; the package inlay must be "
                                             "installed for the python3 of PATH");
  std::string words(static_cast<std::size_t>(ready.size), ' ');
  if (ready.code != INLAY_OK && receive_all(socket_, words.data(), words.size()))
    return Status(StatusCode::not_found, "--kernel: " + Text(words));
  return {};
}

inlay_code PythonKernel::run(const char* op, const c::Call& call) {
  Request request;
  for (const inlay_argument& argument : call.arguments) request.add(argument);
  request.lines = std::string(op) + "\n" + request.lines;
  const std::int64_t sizes[] = {static_cast<std::int64_t>(request.lines.size()),
                                static_cast<std::int64_t>(request.bytes.size())};
  Reply reply{};
  if (!send_all(socket_, sizes, sizeof sizes) || !send_all(socket_, request.lines.data(), request.lines.size()) ||
      !send_all(socket_, request.bytes.data(), request.bytes.size()) || !receive_all(socket_, &reply, sizeof reply))
    _exit(1);
  std::vector<std::byte> received(static_cast<std::size_t>(reply.size));
  if (!receive_all(socket_, received.data(), received.size())) _exit(1);
  if (reply.code >= 0 && received.size() == request.bytes.size() && reply.code != INLAY_INVALID_ARGUMENT) {
    // What it has changed alone: operands may share memory.
    for (const Part& part : request.parts)
      for (std::size_t i = 0; i < part.bytes; ++i)
        if (received[part.at + i] != request.bytes[part.at + i]) part.begin[i] = received[part.at + i];
  } else {
    message_.assign(reinterpret_cast<const char*>(received.data()), received.size());
  }
  return static_cast<inlay_code>(reply.code);
}

}  // namespace inlay::tools
