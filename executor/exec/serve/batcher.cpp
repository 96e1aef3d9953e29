#include <inlay/exec/serve/batcher.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace inlay::exec {

namespace {

bool is_older(const Request* a, const Request* b) { return a->rank < b->rank; }

void insert(std::vector<Request*>& list, Request& request) {
  list.insert(std::lower_bound(list.begin(), list.end(), &request, is_older), &request);
}
bool erase(std::vector<Request*>& list, const Request& request) {
  const auto at = std::find(list.begin(), list.end(), &request);
  if (at == list.end()) return false;
  list.erase(at);
  return true;
}

PrefixCache::Text text_of(const Request& request) {
  return {.known = request.known, .prompt = request.prompt, .salt = request.cache_salt};
}

}  // namespace

Status Batcher::check(const Options& options) {
  const auto wrong = [](const char* name, index value, const std::string& must) {
    return invalid(std::string(name) + " is " + std::to_string(value) + "; it must be " + must);
  };
  if (options.tokens < 1) return wrong("tokens", options.tokens, "at least 1");
  const index most = std::max<index>(options.tokens - options.tokens / 4, 1);
  if (options.requests < 1 || options.requests > most)
    return wrong("requests", options.requests,
                 "1 to " + std::to_string(most) + ", three quarters of the tokens of a pass");
  if (options.passes < 0) return wrong("passes", options.passes, "at least 0");
  return {};
}

Status Batcher::submit(Request& request) {
  if (request.prompt < 1 || request.prompt != static_cast<index>(request.known.size()))
    return invalid("the prompt has " + std::to_string(request.prompt) + " tokens, and " +
                   std::to_string(request.known.size()) + " are known; it must have at least 1, and all of them");
  if (request.most < request.prompt)
    return invalid("most is " + std::to_string(request.most) + "; it must be at least the " +
                   std::to_string(request.prompt) + " tokens of the prompt");
  const index blocks = pool_->blocks_of(request.most);
  if (blocks > pool_->shape().blocks)
    return {StatusCode::out_of_memory, "a text of " + std::to_string(request.most) + " tokens needs " +
                                           std::to_string(blocks) + " blocks; the whole KV cache has " +
                                           std::to_string(pool_->shape().blocks)};
  insert(waiting_, request);
  return {};
}

void Batcher::fork(const Request& request, Request& child) {
  // A block for each that runs, as where one is admitted.
  if (running() == options_.requests || running() >= pool_->free_blocks()) return insert(waiting_, child);
  reserve_places(child);
  pool_->fork(request.sequence, child.sequence);
  insert(running_, child);
}

void Batcher::replace(Request& request, Request& other) {
  List& list = erase(running_, request) ? running_ : waiting_;
  erase(waiting_, request);
  other.sequence = std::exchange(request.sequence, {});
  other.swapped = std::exchange(request.swapped, {});
  other.passed = request.passed;
  insert(list, other);
}

void Batcher::remove(Request& request) {
  if (!erase(running_, request)) erase(waiting_, request);
  // Nobody can ask for what was generated any more.
  const auto first = static_cast<std::size_t>(request.prompt / pool_->shape().block_size);
  for (std::size_t i = first; i < request.sequence.blocks.size(); ++i) pool_->keep(request.sequence.blocks[i], false);
  pool_->release(request.sequence);
  if (request.swapped.length > 0) swap_space_->forget(request.swapped);
}

std::span<const Batcher::Part> Batcher::next() {
  parts_.clear();
  left_ = options_.tokens;
  const index before = preemptions_;
  add_generated();
  add_prompts();
  if (preemptions_ == before) admit();
  return parts_;
}

void Batcher::add_generated() {
  const index writing = std::count_if(running_.begin(), running_.end(), [](const Request* r) { return r->writes(); });
  const bool has_prompts = writing < running() || waiting() > 0;
  // For tokens that were generated before a preemption.
  index spare = std::max<index>(left_ - writing - (has_prompts ? std::max<index>(options_.tokens / 4, 1) : 0), 0);
  // Who is preempted stands behind, and has no part yet.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Request& request = *running_[i];
    if (!request.writes()) continue;
    const index more = std::min(request.missing() - 1, spare);
    if (!make_room(request, request.computed() + 1 + more)) return;
    spare -= more;
    add(request, 1 + more);
  }
}

void Batcher::add_prompts() {
  for (Request* request : running_)
    if (!request->writes() && left_ > 0) add_rest(*request);
}

void Batcher::admit() {
  bool first_waits_for_another = false;
  for (std::size_t i = 0; i < waiting_.size() && running() < options_.requests && left_ > 0;) {
    Request &first = *waiting_.front(), &request = *waiting_[i];
    const bool goes_by = i > 0;
    if (goes_by && (first.passed == options_.passes || static_cast<index>(i) > options_.passes)) return;
    PrefixCache::Match found;
    if (options_.reuse_prefixes) found = prefixes_.find(text_of(request));
    if (!goes_by) first_waits_for_another = found.is_pending;
    const index wanted = std::min(static_cast<index>(request.known.size()) + 1, request.most);
    // Those that are found, and that nobody has, are among the free ones.
    const index shared = std::count_if(found.blocks.begin(), found.blocks.end(),
                                       [&](std::int32_t block) { return !pool_->is_idle(block); });
    if (found.is_pending || pool_->blocks_of(wanted) - shared + running() > pool_->free_blocks()) {
      ++i;
      continue;
    }
    if (goes_by && !first_waits_for_another) ++first.passed;
    request.passed = 0;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    insert(running_, request);
    reserve_places(request);
    for (const std::int32_t block : found.blocks) pool_->share(request.sequence, block);
    request.sequence.length = static_cast<index>(found.blocks.size()) * pool_->shape().block_size;
    reused_ += request.computed();
    make_room(request, wanted);
    if (request.swapped.length > 0) swap_in(request);
    if (options_.reuse_prefixes) prefixes_.announce(text_of(request), request.sequence);
    add_rest(request);
  }
}

void Batcher::reserve_places(Request& request) const {
  request.sequence.blocks.reserve(static_cast<std::size_t>(pool_->blocks_of(request.most)));
}

bool Batcher::make_room(Request& request, index tokens) {
  while (pool_->lacking(request.sequence, tokens) > pool_->free_blocks()) {
    const bool itself = running_.back() == &request;
    preempt_youngest();
    if (itself) return false;
  }
  return pool_->reserve(request.sequence, tokens).ok();
}

void Batcher::preempt_youngest() {
  Request& youngest = *running_.back();
  running_.pop_back();
  if (options_.reuse_prefixes) prefixes_.publish(text_of(youngest), youngest.sequence);
  if (swap_space_ != nullptr) swap_out(youngest);
  pool_->release(youngest.sequence);
  insert(waiting_, youngest);
  ++preemptions_;
}

void Batcher::swap_out(Request& request) {
  // It has no part in the pass, and so no block that is still to be copied.
  if (request.computed() > 0) swaps_ += swap_space_->swap_out(request.sequence, request.swapped).ok();
}

void Batcher::swap_in(Request& request) {
  const index length = request.swapped.length, found = request.computed();
  // A copy that fails leaves what is to be computed.
  if (found < length &&
      swap_space_->swap_in(request.swapped, found / pool_->shape().block_size, request.sequence).ok()) {
    request.sequence.length = length;
    if (options_.reuse_prefixes) prefixes_.publish(text_of(request), request.sequence);
  }
  swap_space_->forget(request.swapped);
}

void Batcher::add_rest(Request& request) {
  add(request, std::min(request.writes() ? request.missing() : request.prompt - request.computed(), left_));
}

void Batcher::add(Request& request, index count) {
  // Generated tokens go before prompts, those of a text that has just been admitted too.
  const auto place = request.writes() ? std::find_if(parts_.begin(), parts_.end(),
                                                     [](const Part& part) { return !part.request->writes(); })
                                      : parts_.end();
  parts_.insert(place, {&request, count, request.missing() == count});
  left_ -= count;
}

Status Batcher::fill(Batch& batch) const {
  for (const auto& [request, count, has_logits] : parts_) {
    const auto tokens = std::span<const Token>(request->known)
                            .subspan(static_cast<std::size_t>(request->computed()), static_cast<std::size_t>(count));
    const auto add = request->writes() ? &Batch::add_generated : &Batch::add_prompt;
    if (Status status = (batch.*add)(*pool_, request->sequence, tokens, has_logits ? 1 : 0); !status.ok())
      return status;
  }
  return {};
}

void Batcher::computed() {
  for (const auto& [request, count, has_logits] : parts_) {
    const bool is_prompt = !request->writes();
    request->sequence.length += count;
    if (is_prompt && options_.reuse_prefixes) prefixes_.publish(text_of(*request), request->sequence);
  }
  parts_.clear();
  pool_->copied();
}

}  // namespace inlay::exec
