#include "tools/timeline.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "files/trace_events.hpp"

namespace inlay::tools {

Parallel Timeline::over(const Parallel& threads) {
  threads_ = threads;
  lanes_ = std::vector<Lane>(static_cast<std::size_t>(std::max(threads.width, 1)));
  lanes_[0].thread = std::this_thread::get_id();
  Parallel observed = threads;
  observed.context = this;
  if (threads.run != nullptr) observed.run = run;
  return observed;
}

void Timeline::run(void* context, index tasks, void (*task)(void* data, index i), void* data) {
  Timeline& timeline = *static_cast<Timeline*>(context);
  const Parallel& threads = timeline.threads_;
  if (!timeline.records_) return threads.run(threads.context, tasks, task, data);
  Job job{&timeline, task, data};
  const Time begin = now();
  threads.run(
      threads.context, tasks,
      [](void* with, index i) {
        const Job& observed = *static_cast<const Job*>(with);
        const Time began = now();
        observed.task(observed.data, i);
        const Time ended = now();
        if (Lane* lane = observed.timeline->lane_of_this_thread()) lane->tasks.push_back({began, ended});
      },
      &job);
  timeline.pass_.jobs.push_back({begin, now()});
}

// Threads beyond the width, which a pool may bring, are not drawn.
Timeline::Lane* Timeline::lane_of_this_thread() {
  const std::thread::id self = std::this_thread::get_id();
  for (Lane& lane : lanes_) {
    std::thread::id known = lane.thread.load();
    if (known == self || (known == std::thread::id() && lane.thread.compare_exchange_strong(known, self))) return &lane;
  }
  return nullptr;
}

void Timeline::begin_pass() {
  records_ = true;
  pass_ = {};
  for (Lane& lane : lanes_) lane.tasks.clear();
  pass_.begin = now();
}

void Timeline::end_pass() {
  pass_.end = now();
  records_ = false;
  for (Lane& lane : lanes_) pass_.tasks.push_back(lane.tasks);
  passes_.push_back(std::move(pass_));
}

void Timeline::begin(std::string_view op, index width) { pass_.steps.push_back({{now(), {}}, op, width}); }
void Timeline::end() { pass_.steps.back().end = now(); }

const Timeline::Pass* Timeline::median_pass() const {
  if (passes_.empty()) return nullptr;
  std::vector<const Pass*> order;
  for (const Pass& pass : passes_) order.push_back(&pass);
  std::sort(order.begin(), order.end(), [](const Pass* a, const Pass* b) { return a->us() < b->us(); });
  return order[(order.size() - 1) / 2];
}

double Timeline::median_us() const {
  const Pass* pass = median_pass();
  return pass == nullptr ? 0 : pass->us();
}

// What the steps of one operator have together, in microseconds.
struct Timeline::Row {
  std::string_view op;
  index width = 0;
  double steps = 0, jobs = 0, all = 0;
  double alone = 0;  // outside of jobs
  double waits = 0;  // the caller, in a job, without a task
  double idle = 0;   // the others, in a job, without a task: of all of them together
};

void Timeline::add_steps(const Pass& pass, std::vector<Row>& rows) {
  std::vector<std::size_t> at(pass.tasks.size(), 0);
  // The tasks of a thread until then, in order: those of earlier jobs are behind it.
  const auto busy = [&](std::size_t thread, Time until) {
    double sum = 0;
    for (; at[thread] < pass.tasks[thread].size() && pass.tasks[thread][at[thread]].begin < until; ++at[thread])
      sum += pass.tasks[thread][at[thread]].us();
    return sum;
  };
  auto job = pass.jobs.begin();
  for (const Step& step : pass.steps) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& known) { return known.op == step.op && known.width == step.width; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{.op = step.op, .width = step.width});
    row->steps += 1;
    row->all += step.us();
    row->alone += step.us();
    for (; job != pass.jobs.end() && job->begin < step.end; ++job) {
      row->jobs += 1;
      row->alone -= job->us();
      for (std::size_t thread = 0; thread < pass.tasks.size(); ++thread)
        (thread == 0 ? row->waits : row->idle) += job->us() - busy(thread, job->end);
    }
  }
}

void Timeline::print() const {
  const double median = median_us();
  std::vector<Row> rows;
  double passes = 0, all = 0;
  for (const Pass& pass : passes_) {
    if (pass.us() > median) continue;
    add_steps(pass, rows);
    passes += 1;
    all += pass.us();
  }
  if (passes == 0) return;
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.all > b.all; });
  std::printf("  %-24s %7s %5s %9s %6s %9s %6s %9s %9s\n", "operator", "width", "steps", "us", "share", "alone us",
              "jobs", "waits us", "idle us");
  Row sum{.op = "all", .width = 0};
  const auto line = [&](const Row& row) {
    std::printf("  %-24s %7ld %5.0f %9.1f %5.1f%% %9.1f %6.0f %9.1f %9.1f\n", std::string(row.op).c_str(),
                static_cast<long>(row.width), row.steps / passes, row.all / passes, 100 * row.all / all,
                row.alone / passes, row.jobs / passes, row.waits / passes, row.idle / passes);
  };
  for (const Row& row : rows) {
    line(row);
    sum.steps += row.steps, sum.jobs += row.jobs, sum.all += row.all;
    sum.alone += row.alone, sum.waits += row.waits, sum.idle += row.idle;
  }
  line(sum);
  std::printf("  between the steps %.1f us; the pass %.1f us\n", (all - sum.all) / passes, all / passes);
}

void Timeline::keep(const std::string& what) {
  if (const Pass* pass = median_pass()) kept_.emplace_back(what, *pass);
  passes_.clear();
}

Status Timeline::write(const std::string& file) const {
  files::TraceEvents events;
  for (std::size_t process = 0; process < kept_.size(); ++process) {
    const auto& [what, pass] = kept_[process];
    const auto slice = [&, start = pass.begin](std::size_t thread, const std::string& text, const Span& span) {
      events.slice(process, thread, text, Span{start, span.begin}.us(), span.us());
    };
    events.name_process(process, what);
    for (std::size_t thread = 0; thread < pass.tasks.size(); ++thread) {
      events.name_thread(process, thread, thread == 0 ? "caller" : "worker " + std::to_string(thread));
      for (const Span& task : pass.tasks[thread]) slice(thread, "task", task);
    }
    for (const Step& step : pass.steps) slice(0, std::string(step.op) + " " + std::to_string(step.width), step);
    for (const Span& job : pass.jobs) slice(0, "job", job);
  }
  return events.write(file);
}

}  // namespace inlay::tools
