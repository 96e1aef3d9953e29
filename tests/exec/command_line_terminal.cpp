// `inlay run --chat` at a terminal: Ctrl-C ends an answer and not the program, and Ctrl-D the chat.
#include <poll.h>
#include <pty.h>

#include <csignal>

#include "tests/exec/support/command_line.hpp"

namespace inlay::test {
namespace {

class CommandLineTerminal : public CommandLine {
 protected:
  // Each message as it is, with nothing around it.
  std::string plain() const {
    return write("plain.jinja", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
  }
};

// At a terminal: what it shows until `end` is seen, or the program ends.
struct Terminal {
  explicit Terminal(const std::string& arguments) {
    child = ::forkpty(&fd, nullptr, nullptr, nullptr);
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", (std::string("exec ") + inlay_program + " " + arguments).c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~Terminal() {
    if (child > 0) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
    ::close(fd);
  }
  bool shows(const std::string& end) {
    for (;;) {
      if (const std::size_t at = unread.find(end); at != std::string::npos) {
        unread.erase(0, at + end.size());
        return true;
      }
      pollfd wait{fd, POLLIN, 0};
      char part[4096];
      if (::poll(&wait, 1, 60000) <= 0) return false;
      const ssize_t count = ::read(fd, part, sizeof part);
      if (count <= 0) return closed = true, false;
      unread.append(part, static_cast<std::size_t>(count)), shown.append(part, static_cast<std::size_t>(count));
    }
  }
  void types(const std::string& keys) const {
    EXPECT_EQ(::write(fd, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // What it ends with, and 128 + SIGKILL if it has shown nothing for a minute and not ended.
  int code() {
    int status = 0;
    while (shows(std::string(1, '\0'))) continue;
    if (!closed) ::kill(child, SIGKILL);
    ::waitpid(std::exchange(child, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  int fd = -1;
  pid_t child = -1;
  bool closed = false;  // at its end
  std::string unread, shown;
};

TEST_F(CommandLineTerminal, ctrl_c_ends_an_answer_and_not_the_program) {
  // Long answers, written slowly: no end of the text, and the reference to write it.
  Terminal terminal("run --chat --backend reference --logit-bias 2=-inf --template " + plain());
  ASSERT_TRUE(terminal.shows("> ")) << terminal.unread;
  terminal.types("Once upon a time\n");
  ASSERT_TRUE(terminal.shows("lived in")) << terminal.unread;
  terminal.types("\x03");
  ASSERT_TRUE(terminal.shows("> ")) << terminal.unread;
  EXPECT_EQ(terminal.shown.find("the context of 512 tokens is full"), std::string::npos) << "it came to its end";
  terminal.types("\x03");  // at the prompt: it asks
  ASSERT_TRUE(terminal.shows("once more")) << terminal.unread;
  ASSERT_TRUE(terminal.shows("> ")) << terminal.unread;
  terminal.types(" Once upon a time\n");  // it is still there
  ASSERT_TRUE(terminal.shows("Once upon a time\r\n")) << terminal.unread;
  ASSERT_TRUE(terminal.shows(" a ")) << terminal.unread;
  terminal.types("\x03");
  ASSERT_TRUE(terminal.shows("> ")) << terminal.unread;
  terminal.types("\x03");
  ASSERT_TRUE(terminal.shows("once more")) << terminal.unread;
  terminal.types("\x03");
  EXPECT_EQ(terminal.code(), 0);
}

TEST_F(CommandLineTerminal, ctrl_d_ends_the_chat) {
  Terminal terminal("run --chat --tokens 3 --template " + plain());
  ASSERT_TRUE(terminal.shows("> ")) << terminal.unread;
  terminal.types("Once\n");
  ASSERT_TRUE(terminal.shows("> ")) << terminal.unread;
  terminal.types("\x04");
  EXPECT_EQ(terminal.code(), 0);
}

}  // namespace
}  // namespace inlay::test
