// SPDX-License-Identifier: Apache-2.0
// Continuous batching over a paged KV cache: random requests come and go, and each step runs the next chunk of every
// prompt and the next token of everything else in one ragged call. Numbers made from (request, token) stand in for what
// a model would project. At its end each request is compared with attention over all its tokens at once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <siattn/backend.hpp>
#include <siattn/kv_cache.hpp>

namespace {

using Index = std::int64_t;

constexpr Index kHeads = 8, kKvHeads = 2, kDim = 64;
constexpr Index kPageSize = 16, kPages = 256, kSequences = 12, kChunk = 64, kLongest = 512;
constexpr unsigned kRequests = 24;
constexpr Index kPagesOfOne = kLongest / kPageSize;
const siattn::PositionEncoding kRope = siattn::Rope{};

void check(const siattn::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

struct Request {
  unsigned id = 0;
  Index prompt = 0;
  Index length = 0;                 // prompt and what is decoded
  Index done = 0;                   // tokens in the cache
  std::vector<std::int32_t> pages;  // held, in order
  std::vector<float> out;           // [heads, length, dim]

  Index next() const { return done < prompt ? std::min(prompt - done, kChunk) : 1; }
};

/// The row of a head of a token: kind 0 query, 1 key, 2 value.
void project(const Request& request, Index token, Index head, unsigned kind, float* row) {
  std::minstd_rand random(1 + request.id * 7919U + static_cast<unsigned>((token * 3 + kind) * 64 + head) * 104729U);
  for (Index d = 0; d < kDim; ++d) row[d] = static_cast<float>(random()) / 1073741824.0F - 1.0F;
}

/// A dense [1, heads, tokens, dim] tensor that has room for `most` tokens.
struct Rows {
  Rows(Index heads_, Index most) : heads(heads_), data(static_cast<std::size_t>(heads_ * most * kDim)) {}
  siattn::MutableTensorView view(Index tokens) { return {data.data(), {1, heads, tokens, kDim}}; }
  float* row(Index tokens, Index head, Index i) { return data.data() + (head * tokens + i) * kDim; }
  void project_token(const Request& request, Index token, unsigned kind, Index tokens, Index i) {
    for (Index h = 0; h < heads; ++h) project(request, token, h, kind, row(tokens, h, i));
  }
  Index heads;
  std::vector<float> data;
};

double difference_from_one_prefill(Request& request) {
  const Index n = request.length;
  Rows query(kHeads, n), key(kKvHeads, n), value(kKvHeads, n), out(kHeads, n);
  for (Index i = 0; i < n; ++i) {
    query.project_token(request, i, 0, n, i);
    key.project_token(request, i, 1, n, i);
    value.project_token(request, i, 2, n, i);
  }
  siattn::AttentionTensors tensors;
  check(siattn::apply(kRope, query.view(n), query.view(n), 0));
  check(siattn::apply(kRope, key.view(n), key.view(n), 0));
  tensors.query = query.view(n);
  tensors.key = key.view(n);
  tensors.value = value.view(n);
  tensors.out = out.view(n);
  check(siattn::attention(tensors));
  double largest = 0;
  for (std::size_t k = 0; k < out.data.size(); ++k) {
    const double difference = std::abs(double{out.data[k]} - request.out[k]);
    if (!(difference <= largest)) largest = difference;  // NaN too
  }
  return largest;
}

/// Everything that lives as long as the server: the cache of one layer, its free pages, one plan, room for one step.
class Server {
 public:
  Server() : key_slots_(kSlots), value_slots_(kSlots), table_(kSequences * kPagesOfOne) {
    const siattn::Shape4 slots{kPages, kKvHeads, kPageSize, kDim};
    cache_.key = {key_slots_.data(), slots};
    cache_.value = {value_slots_.data(), slots};
    cache_.pages = {table_.data(), kPagesOfOne, kPageSize};
    for (std::int32_t page = kPages; page-- > 0;) free_pages_.push_back(page);

    siattn::AttentionProblem problem;  // the most that a step may bring; causal, scale-invariant with tau = 10
    problem.shape = {kSequences, kHeads, kKvHeads, kChunk, kLongest, kDim, kDim};
    auto plan = siattn::AttentionPlan::create(problem);
    check(plan.status());
    plan_.emplace(*std::move(plan));
    workspace_.resize(plan_->workspace_bytes());
  }

  Index free_pages() const { return static_cast<Index>(free_pages_.size()); }

  /// The next tokens of every request.
  void step(std::deque<Request>& running) {
    std::vector<Index> before, after, cumulative{0}, positions;
    for (std::size_t b = 0; b < running.size(); ++b) {
      Request& request = running[b];
      const Index end = request.done + request.next();
      while (static_cast<Index>(request.pages.size()) * kPageSize < end) {
        request.pages.push_back(free_pages_.back());
        free_pages_.pop_back();
      }
      std::copy(request.pages.begin(), request.pages.end(), table_.begin() + static_cast<Index>(b) * kPagesOfOne);
      before.push_back(request.done);
      after.push_back(end);
      cumulative.push_back(cumulative.back() + request.next());
      for (Index i = request.done; i < end; ++i) positions.push_back(i);
    }
    const Index tokens = cumulative.back();
    for (std::size_t b = 0; b < running.size(); ++b) {
      for (Index i = cumulative[b]; i < cumulative[b + 1]; ++i) {
        const Index token = positions[static_cast<std::size_t>(i)];
        query_.project_token(running[b], token, 0, tokens, i);
        key_.project_token(running[b], token, 1, tokens, i);
        value_.project_token(running[b], token, 2, tokens, i);
      }
    }

    const auto start = std::chrono::steady_clock::now();
    const std::span<const Index> cu(cumulative);
    check(siattn::append(cache_, {key_.view(tokens), value_.view(tokens), cu}, before, kRope));
    check(siattn::apply(kRope, query_.view(tokens), query_.view(tokens), positions));
    siattn::AttentionTensors tensors;
    siattn::read_from(cache_, after, tensors);
    tensors.query = query_.view(tokens);
    tensors.out = out_.view(tokens);
    tensors.cu_query = cu;
    check(plan_->run(tensors, workspace_));
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    for (std::size_t b = 0; b < running.size(); ++b) {
      Request& request = running[b];
      for (Index h = 0; h < kHeads; ++h) {
        std::copy(out_.row(tokens, h, cumulative[b]), out_.row(tokens, h, cumulative[b + 1]),
                  request.out.begin() + (h * request.length + request.done) * kDim);
      }
      request.done = after[b];
    }
    tokens_ += tokens;
  }

  void release(Request& request) {
    free_pages_.insert(free_pages_.end(), request.pages.begin(), request.pages.end());
    request.pages.clear();
  }

  double tokens_per_second() const { return static_cast<double>(tokens_) / seconds_; }
  const siattn::AttentionPlan& plan() const { return *plan_; }

 private:
  static constexpr std::size_t kSlots = kPages * kKvHeads * kPageSize * kDim;
  std::vector<float> key_slots_, value_slots_;
  std::vector<std::int32_t> table_, free_pages_;
  siattn::KvCacheView cache_;
  std::optional<siattn::AttentionPlan> plan_;
  std::vector<std::byte> workspace_;
  Rows query_{kHeads, kSequences*kChunk}, key_{kKvHeads, kSequences*kChunk}, value_{kKvHeads, kSequences*kChunk},
      out_{kHeads, kSequences*kChunk};
  double seconds_ = 0;
  Index tokens_ = 0;
};

}  // namespace

int main() {
  std::mt19937 random(1);
  std::deque<Request> waiting, running;
  Index prompts = 0, decoded = 0;
  for (unsigned id = 0; id < kRequests; ++id) {
    Request request;
    request.id = id;
    request.prompt = 1 + static_cast<Index>(random() % 400);
    request.length = request.prompt + 1 + static_cast<Index>(random() % 100);
    request.out.resize(static_cast<std::size_t>(kHeads * request.length * kDim));
    prompts += request.prompt;
    decoded += request.length - request.prompt;
    waiting.push_back(std::move(request));
  }

  Server server;
  Index steps = 0, reserved = 0, least_free = kPages;
  std::size_t most = 0;
  double largest = 0;
  const auto pages_of = [](const Request& request) { return (request.length + kPageSize - 1) / kPageSize; };
  while (!waiting.empty() || !running.empty()) {
    // A request is let in when there are pages for all that it will hold, so that none has to be put out again.
    while (!waiting.empty() && static_cast<Index>(running.size()) < kSequences &&
           reserved + pages_of(waiting.front()) <= kPages) {
      reserved += pages_of(waiting.front());
      running.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    server.step(running);
    ++steps;
    most = std::max(most, running.size());
    least_free = std::min(least_free, server.free_pages());
    for (auto request = running.begin(); request != running.end();) {
      if (request->done < request->length) {
        ++request;
        continue;
      }
      const double difference = difference_from_one_prefill(*request);
      if (!(difference <= largest)) largest = difference;
      server.release(*request);
      reserved -= pages_of(*request);
      request = running.erase(request);
    }
  }

  std::printf("%u requests, %lld prompt and %lld decoded tokens, %lld steps of up to %zu sequences\n", kRequests,
              static_cast<long long>(prompts), static_cast<long long>(decoded), static_cast<long long>(steps), most);
  std::printf("%.0f tokens/s: encoding, cache and attention of one layer, %s, %d threads\n", server.tokens_per_second(),
              std::string(server.plan().backend().name()).c_str(), server.plan().prepared().threads);
  std::printf("cache: %lld of %lld pages of %lld tokens at most, %lld at the end\n",
              static_cast<long long>(kPages - least_free), static_cast<long long>(kPages),
              static_cast<long long>(kPageSize), static_cast<long long>(kPages - server.free_pages()));
  std::printf("largest difference from one prefill of each request: %.1e\n", largest);
  return largest < 1e-5 && server.free_pages() == kPages ? 0 : 1;
}
