// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulator/machine.hpp"

#include <algorithm>
#include <exception>
#include <sstream>

namespace siattn::gpu::emulator {
namespace {

const Kernel* first_kernel = nullptr;

std::string file_name(const Where& where) {
  const std::string path = where.file_name();
  return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(where.line());
}

bool same(const Where& a, const Where& b) { return a.line() == b.line() && a.column() == b.column(); }

}  // namespace

Kernel::Kernel(const char* kernel_name, std::size_t bytes, int most_threads, void (*body)(const void*))
    : name(kernel_name), params_bytes(bytes), max_threads(most_threads), run(body), next(first_kernel) {
  first_kernel = this;
}

const Kernel* find_kernel(std::string_view name) {
  for (const Kernel* kernel = first_kernel; kernel != nullptr; kernel = kernel->next) {
    if (kernel->name == name) return kernel;
  }
  return nullptr;
}

std::vector<Schedule> schedules() {
  return {{Order::ascending, Moment::earliest},
          {Order::ascending, Moment::latest},
          {Order::descending, Moment::earliest},
          {Order::descending, Moment::latest},
          {Order::random, Moment::random, 1}};
}

std::string launch(const Launch& launch, const Schedule& schedule) { return Machine::here().launch(launch, schedule); }

Machine& Machine::here() {
  static thread_local Machine machine;
  return machine;
}

std::string Machine::launch(const Launch& launch, const Schedule& schedule) {
  const auto refuse = [](const std::string& what) { return "launch: " + what; };
  if (launch.kernel == nullptr) return refuse("no kernel");
  if (launch.threads < 32 || launch.threads % 32 != 0 || launch.threads > launch.kernel->max_threads) {
    return refuse(std::string(launch.kernel->name) + " with blocks of " + std::to_string(launch.threads) +
                  " threads; expected whole warps and at most " + std::to_string(launch.kernel->max_threads));
  }
  if (launch.shared_bytes > kMaxShared) {
    return refuse(std::to_string(launch.shared_bytes) + " bytes of shared memory; a block has at most " +
                  std::to_string(kMaxShared));
  }
  for (const int n : launch.grid) {
    if (n < 1) return refuse("a grid of " + std::to_string(n) + " blocks");
  }
  schedule_ = schedule;
  random_.seed(schedule.seed);
  kernel_ = launch.kernel;
  constexpr std::size_t kAlign = 64;  // a tensor map's
  const std::size_t whole = (kernel_->params_bytes + kAlign - 1) / kAlign * kAlign;
  const std::unique_ptr<void, void (*)(void*)> params(std::aligned_alloc(kAlign, whole), std::free);
  std::memcpy(params.get(), launch.params, kernel_->params_bytes);
  params_ = params.get();
  threads_ = launch.threads;
  std::copy_n(launch.grid, 3, grid_);
  windows_ = {};
  error_.clear();
  shared_bytes_ = (launch.shared_bytes + 15) / 16 * 16;
  // Of exactly these bytes: an address sanitizer sees the first one past them.
  shared_.reset(static_cast<std::byte*>(::operator new[](shared_bytes_, std::align_val_t{1024})));
  while (fibres_.size() < static_cast<std::size_t>(threads_)) fibres_.push_back(std::make_unique<Fibre>());

  const std::int64_t blocks = std::int64_t{grid_[0]} * grid_[1] * grid_[2];
  std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
  for (std::int64_t i = 0; i < blocks; ++i) order[static_cast<std::size_t>(i)] = i;
  if (schedule_.order == Order::descending) std::reverse(order.begin(), order.end());
  if (schedule_.order == Order::random) std::shuffle(order.begin(), order.end(), random_);
  for (const std::int64_t block : order) {
    block_[0] = static_cast<int>(block % grid_[0]);
    block_[1] = static_cast<int>(block / grid_[0] % grid_[1]);
    block_[2] = static_cast<int>(block / grid_[0] / grid_[1]);
    run_block();
    if (!error_.empty()) break;
  }
  return error_;
}

void Machine::run_block() {
  std::memset(shared_.get(), 0xff, shared_bytes_);
  const auto warps = static_cast<std::size_t>(threads_ / 32);
  lanes_.assign(static_cast<std::size_t>(threads_), {});
  warps_.assign(warps, {});
  copies_.assign(static_cast<std::size_t>(threads_), {});
  products_.assign(warps, {});
  sums_.assign(warps, {});
  barriers_ = {};
  mbarriers_.clear();
  tensor_copies_.clear();
  if (schedule_.races) races_.reset(threads_, shared_bytes_);
  live_ = threads_;
  for (std::size_t w = 0; w < warps; ++w) {
    warps_[w].index = static_cast<int>(w);
    warps_[w].ready = 32;
  }
  for (int t = 0; t < threads_; ++t) {
    fibres_[static_cast<std::size_t>(t)]->begin([](void* machine) { static_cast<Machine*>(machine)->body(); }, this);
  }
  while (live_ > 0 && error_.empty()) {
    Warp* warp = choose();
    if (warp == nullptr) {
      if (!apply_a_tensor_copy()) deadlock();
      continue;
    }
    const bool random = schedule_.order == Order::random;
    const int first = random ? static_cast<int>(random_() % 32) : 0;
    const int step = random ? static_cast<int>(random_() % 16) * 2 + 1 : 1;
    for (int i = 0; i < 32 && error_.empty(); ++i) {
      const int lane = schedule_.order == Order::descending ? 31 - i : (first + i * step) % 32;
      const int thread = warp->index * 32 + lane;
      if (lanes_[static_cast<std::size_t>(thread)].waits == Waits::nothing) run_lane(thread);
    }
  }
  for (int t = 0; t < threads_; ++t) {
    if (fibres_[static_cast<std::size_t>(t)]->active()) fibres_[static_cast<std::size_t>(t)]->abandon();
  }
  int registers = 0;
  for (const Warp& warp : warps_) registers += 32 * warp.registers;
  if (error_.empty() && registers > 65536)
    error_ = place() + "setmaxnreg asks for " + std::to_string(registers) + " registers";
}

void Machine::run_lane(int thread) {
  thread_ = thread;
  fibres_[static_cast<std::size_t>(thread)]->resume();
}

void Machine::body() {
  const int thread = thread_;
  try {
    kernel_->run(params_);
  } catch (const Failed&) {
    return;
  } catch (const std::exception& problem) {
    error_ = place() + problem.what();
    return;
  }
  thread_ = thread;
  returned();
}

void Machine::returned() {
  lane().waits = Waits::done;
  warp().ready--;
  --live_;
  NamedBarrier& all = barriers_[0];
  if (all.arrived > 0) open_if_complete(all);
}

Warp* Machine::choose() {
  const auto can = [](const Warp& warp) { return warp.ready > 0; };
  if (schedule_.order == Order::ascending) {
    const auto at = std::find_if(warps_.begin(), warps_.end(), can);
    return at == warps_.end() ? nullptr : &*at;
  }
  if (schedule_.order == Order::descending) {
    const auto at = std::find_if(warps_.rbegin(), warps_.rend(), can);
    return at == warps_.rend() ? nullptr : &*at;
  }
  const auto count = static_cast<std::uint64_t>(std::count_if(warps_.begin(), warps_.end(), can));
  if (count == 0) return nullptr;
  std::uint64_t nth = random_() % count;
  for (Warp& warp : warps_) {
    if (can(warp) && nth-- == 0) return &warp;
  }
  return nullptr;
}

bool Machine::at_once() {
  if (schedule_.moment == Moment::random) return random_() % 2 == 0;
  return schedule_.moment == Moment::earliest;
}

// ---- waiting ----

void Machine::wait(Waits waits, const char* what, const Where& where, std::uint32_t detail) {
  Lane& mine = lane();
  mine.waits = waits;
  mine.what = what;
  mine.where = where;
  mine.detail = detail;
  warp().ready--;
  fibres_[static_cast<std::size_t>(thread_)]->suspend();
}

void Machine::wake(int thread) {
  lanes_[static_cast<std::size_t>(thread)].waits = Waits::nothing;
  warps_[static_cast<std::size_t>(thread / 32)].ready++;
}

void Machine::together(Execute execute, void* args, const char* what, const Where& where) {
  Warp& mine = warp();
  const auto l = static_cast<std::size_t>(thread_ % 32);
  mine.args[l] = args;
  mine.execute[l] = execute;
  mine.where[l] = where;
  if (++mine.arrived < 32) return wait(Waits::warp, what, where, 0);
  mine.arrived = 0;
  for (std::size_t other = 0; other < 32; ++other) {
    if (mine.execute[other] != execute || !same(mine.where[other], where)) {
      fail("divergent warp: this lane is in " + std::string(what) + ", lane " + std::to_string(other) + " in " +
               lane(mine.index * 32 + static_cast<int>(other)).what + " at " + file_name(mine.where[other]),
           where);
    }
  }
  execute(mine, mine.args.data(), where);
  for (int other = 0; other < 32; ++other) {
    const int thread = mine.index * 32 + other;
    if (thread != thread_) wake(thread);
  }
}

struct Machine::Meeting {
  int id;
  int threads;
  bool waits;
  bool value;
  const char* what;
  std::uint32_t opened;
};

bool Machine::sync(int id, int threads, bool waits, bool value, const char* what, const Where& where) {
  Meeting mine{id, threads, waits, value, what, 0};
  const auto execute = [](Warp& warp, void* const* args, const Where& at) {
    for (int l = 1; l < 32; ++l) static_cast<Meeting*>(args[0])->value |= static_cast<Meeting*>(args[l])->value;
    Machine& machine = here();
    const std::uint32_t opened = machine.barriers_[static_cast<std::size_t>(static_cast<Meeting*>(args[0])->id)].opened;
    for (int l = 0; l < 32; ++l) static_cast<Meeting*>(args[l])->opened = opened;
    machine.arrive_at(warp, *static_cast<Meeting*>(args[0]), at);
  };
  if (id < 0 || id > 15) fail("named barrier " + std::to_string(id) + "; there are 0 to 15", where);
  together(execute, &mine, what, where);
  const NamedBarrier& barrier = barriers_[static_cast<std::size_t>(id)];
  if (waits && barrier.opened == mine.opened) wait(Waits::barrier, what, where, static_cast<std::uint32_t>(id));
  return barrier.result;
}

void Machine::arrive_at(Warp& warp, Meeting& meeting, const Where& where) {
  NamedBarrier& barrier = barriers_[static_cast<std::size_t>(meeting.id)];
  if (barrier.arrived > 0 && barrier.expected != meeting.threads) {
    fail("named barrier " + std::to_string(meeting.id) + " of " + std::to_string(meeting.threads) +
             " threads, where others wait for " + std::to_string(barrier.expected),
         where);
  }
  barrier.expected = meeting.threads;
  barrier.arrived += 32;
  barrier.value |= meeting.value;
  for (int t = 32 * warp.index; t < 32 * warp.index + 32; ++t) {
    if (schedule_.races) races_.release(t, barrier.clock);
    if (meeting.waits) barrier.waiting.push_back(t);
  }
  open_if_complete(barrier);
}

void Machine::open_if_complete(NamedBarrier& barrier) {
  if (barrier.arrived < (barrier.expected == 0 ? live_ : barrier.expected)) return;
  barrier.arrived = 0;
  ++barrier.opened;
  barrier.result = barrier.value;
  barrier.value = false;
  for (const int t : barrier.waiting) {
    if (schedule_.races) races_.acquire(t, barrier.clock);
    // Those of the warp that came last are not asleep yet.
    if (lane(t).waits == Waits::barrier) wake(t);
  }
  barrier.waiting.clear();
  barrier.clock.clear();
}

// ---- reports ----

std::string Machine::place() const {
  std::ostringstream text;
  text << kernel_->name << ", block (" << block_[0] << ", " << block_[1] << ", " << block_[2] << "), thread " << thread_
       << ": ";
  return text.str();
}

void Machine::fail(const std::string& what, const Where& where) {
  if (error_.empty()) error_ = place() + what + " at " + file_name(where);
  throw Failed{};
}

void Machine::deadlock() {
  std::ostringstream text;
  text << kernel_->name << ", block (" << block_[0] << ", " << block_[1] << ", " << block_[2] << "): nobody can go on;";
  const auto state = [&](const Lane& lane) {
    if (lane.waits == Waits::done) return std::string("have returned");
    std::string where = "wait in " + std::string(lane.what);
    if (lane.waits == Waits::barrier && lane.detail != 0) where += " " + std::to_string(lane.detail);
    if (lane.waits == Waits::phase) {
      where +=
          " of mbarrier " + std::to_string(mbarriers_[lane.detail].index) + ", parity " + std::to_string(lane.parity);
    }
    if (lane.waits == Waits::warp) where += " for other lanes of the warp";
    return where + " at " + file_name(lane.where);
  };
  for (int first = 0; first < threads_;) {
    const std::string mine = state(lane(first));
    int last = first;
    while (last + 1 < threads_ && state(lane(last + 1)) == mine) ++last;
    text << (first == 0 ? " threads " : "; threads ") << first << "-" << last << " " << mine;
    first = last + 1;
  }
  error_ = text.str();
}

}  // namespace siattn::gpu::emulator
