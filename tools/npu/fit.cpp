#include "tools/npu/fit.hpp"

#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/threads.hpp>

#include "files/whole_file.hpp"
#include "npu_kernels/backend/descriptions.hpp"
#include "tile_machine/fit/fit.hpp"
#include "tools/npu/planned.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

// A program is planned for the description it is fitted to, which changes the plan at most so often.
constexpr int replans = 3;

struct FitCommand {
  std::string device, output;
  std::vector<std::string> logs;
};

struct Logs {
  std::vector<npu::PipeRates> rates;
  std::vector<npu::InstructionLog> instructions;
  std::vector<npu::TimeRow> times;
  std::string times_name;  // of the files that these are from
};

tl::unexpected<Status> in_file(const std::string& file, const Status& status) {
  return failure(status.code(), file + ": " + std::string(status.message()));
}

Status read_log(const std::string& file, const npu::Device& device, Logs& logs) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream content;
  content << stream.rdbuf();
  if (!stream) return {StatusCode::not_found, file + " cannot be read"};
  const std::string text = std::move(content).str();
  const auto keep = [&](auto&& read, auto& kept) {
    if (!read) return in_file(file, read.error()).value();
    kept.push_back(std::move(*read));
    return Status();
  };
  const auto kind = npu::kind_of_log(text);
  if (!kind) return in_file(file, kind.error()).value();
  switch (*kind) {
    case npu::LogKind::trace: return keep(npu::read_trace(text, file, device), logs.instructions);
    case npu::LogKind::instructions: return keep(npu::read_instructions(text, file, device), logs.instructions);
    case npu::LogKind::pipe_utilization: return keep(npu::read_pipe_utilization(text, file, device), logs.rates);
    case npu::LogKind::times: break;
  }
  auto rows = npu::read_times(text);
  if (!rows) return in_file(file, rows.error()).value();
  for (npu::TimeRow& row : *rows) row.file = file;
  logs.times.insert(logs.times.end(), rows->begin(), rows->end());
  logs.times_name.append(logs.times_name.empty() ? "" : ", ").append(file);
  return {};
}

Expected<std::vector<npu::TimedProgram>> plans_of(const std::vector<npu::TimeRow>& rows,
                                                  const std::string& description) {
  std::vector<npu::TimedProgram> programs;
  std::map<std::pair<std::string, std::string>, std::size_t> planned;  // that were measured before
  NpuOptions options;
  options.device = description;
  for (const npu::TimeRow& row : rows) {
    const auto [place, fresh] = planned.emplace(std::pair(row.op, row.shape), programs.size());
    if (fresh) {
      auto plan = plan_of(options, row.op, row.shape);
      if (!plan) return in_file(row.file + ": line " + std::to_string(row.line), plan.error());
      programs.push_back({std::move(plan->plan.log), {}});
    }
    programs[place->second].us.push_back(row.us);
  }
  return programs;
}

// By what they put into their queues.
bool same_programs(const std::vector<npu::TimedProgram>& a, const std::vector<npu::TimedProgram>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto &first = a[i].log.entries, &second = b[i].log.entries;
    if (first.size() != second.size()) return false;
    for (std::size_t e = 0; e < first.size(); ++e)
      if (first[e].pipe != second[e].pipe || first[e].work.bytes != second[e].work.bytes ||
          first[e].work.elements != second[e].work.elements || first[e].work.m != second[e].work.m)
        return false;
  }
  return true;
}

// `fit` with what the times tell where its figures hold already.
Status add_times(const std::string& description, const Logs& logs, npu::Fit& fit) {
  auto before = npu::with_figures(description, fit.figures);
  if (!before) return std::move(before.error());
  auto programs = plans_of(logs.times, *before);
  if (!programs) return std::move(programs.error());
  for (int round = 0;; ++round) {
    auto of_times = npu::fit_times(*before, *programs, logs.times_name, threads());
    if (!of_times) return std::move(of_times.error());
    npu::Fit with = fit;
    npu::merge(with, std::move(*of_times));
    auto fitted = npu::with_figures(description, with.figures);
    if (!fitted) return std::move(fitted.error());
    auto again = plans_of(logs.times, *fitted);
    if (!again) return std::move(again.error());
    if (round + 1 == replans || same_programs(*programs, *again)) {
      fit = std::move(with);
      return {};
    }
    programs = std::move(again);
  }
}

void print(const FitCommand& command, const npu::Device& device, const npu::Fit& fit) {
  std::printf("%zu figures of %s, in %s\n", fit.figures.size(), device.name.c_str(), command.output.c_str());
  for (const npu::FittedFigure& figure : fit.figures)
    std::printf("  %-44s %.5g, was %.5g; %.3g to %.3g; %s\n", figure.pointer.c_str(), figure.value, figure.before,
                figure.value * figure.low, figure.value * figure.high, figure.from.c_str());
  if (!fit.open.empty()) std::printf("as they were: what the logs leave open\n");
  for (const npu::OpenFigure& open : fit.open) std::printf("  %-44s %s\n", open.pointer.c_str(), open.why.c_str());
}

int fit_logs(const FitCommand& command) {
  auto description = npu::description_of(command.device);
  if (!description) return wrong(description.error());
  auto device = npu::parse_device(*description);
  if (!device) return wrong(in_file(command.device, device.error()).value());
  Logs logs;
  for (const std::string& file : command.logs)
    if (Status status = read_log(file, *device, logs); !status.ok()) return wrong(status);
  npu::Fit fit = npu::fit_rates(*device, logs.rates);
  if (!logs.instructions.empty()) npu::merge(fit, npu::fit_instructions(*device, logs.instructions));
  if (!logs.times.empty())
    if (Status status = add_times(*description, logs, fit); !status.ok()) return wrong(status);
  if (fit.figures.empty()) {
    const std::string why = fit.open.empty() ? "" : ": " + fit.open[0].pointer + ": " + fit.open[0].why;
    return wrong("the logs tell no figure of " + device->name + why);
  }
  auto fitted = npu::with_figures(*description, fit.figures);
  if (!fitted) return wrong(in_file("the fitted description", fitted.error()).value());
  if (Status status = files::write_whole(command.output, *fitted); !status.ok()) return wrong(status);
  print(command, *device, fit);
  return 0;
}

}  // namespace

void add_npu_fit(CLI::App& npu, Command& chosen) {
  auto options = std::make_shared<FitCommand>();
  CLI::App& command = *npu.add_subcommand("fit", "A description with figures from logs of msprof, or from times");
  command.add_option("device", options->device, "The description to begin with: a name, or the path of one")
      ->required();
  command
      .add_option(
          "logs", options->logs,
          "trace.json and *_instr_exe.csv of msprof's simulator, PipeUtilization.csv, a table operator,shape,us")
      ->required();
  command.add_option("-o,--output", options->output, "The fitted description")->required();
  command.callback([options, &chosen] { chosen = [options] { return fit_logs(*options); }; });
}

}  // namespace inlay::tools
