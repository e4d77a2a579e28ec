// SPDX-License-Identifier: Apache-2.0
#include "gpu/run.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/launch.hpp"
#include "gpu/launch_sm90.hpp"
#include "gpu/transfer.hpp"

namespace siattn::gpu {
namespace {

std::size_t round_up(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

/// Device memory of the pool, in stream order: free again for others when the stream has got past this run.
class Scratch {
 public:
  Scratch(const Device& device, CuStream stream) noexcept : device_(device), stream_(stream) {}
  ~Scratch() {
    if (pointer_ != 0) device_.driver().pool_free(pointer_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// The offset of so many bytes more, before allocate().
  std::size_t reserve(std::size_t bytes) noexcept { return std::exchange(bytes_, bytes_ + round_up(bytes)); }
  Status allocate() noexcept {
    if (bytes_ == 0) return {};
    return SIATTN_CUDA_CALL(device_.driver(), pool_allocate, &pointer_, bytes_, device_.pool(), stream_);
  }
  CuPointer at(std::size_t offset) const noexcept { return pointer_ + offset; }
  template <class T>
  T* array(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(at(offset));
  }

 private:
  const Device& device_;
  CuStream stream_;
  std::size_t bytes_ = 0;
  CuPointer pointer_ = 0;
};

/// A tensor of the caller's, and whether the kernels get a copy of it.
struct Operand {
  const char* name;
  bool copied = false;
  std::size_t offset = 0;  ///< of the copy in the scratch memory
};

/// One run: the caller's tensors, and as the kernels see them.
class Run {
 public:
  Run(const PlanState& state, const PreparedAttention& problem, const AttentionTensors& tensors)
      : state_(state),
        device_(*state.device()),
        problem_(problem),
        host_(tensors),
        seen_(tensors),
        stream_(static_cast<CuStream>(tensors.stream)),
        scratch_(device_, stream_) {}

  Status run();

 private:
  /// Calls visit(operand, the caller's view, the kernels' view) for every tensor that is there; ends with an error.
  template <class Visit>
  Status for_each_input(Visit visit) {
    Status status = visit(operands_[0], host_.query, seen_.query);
    if (status) status = visit(operands_[1], host_.key, seen_.key);
    if (status) status = visit(operands_[2], host_.value, seen_.value);
    return status;
  }
  template <class Visit>
  Status for_each_output(Visit visit) {
    Status status = visit(operands_[3], host_.out, seen_.out);
    if (status && host_.lse.data != nullptr) status = visit(operands_[4], host_.lse, seen_.lse);
    return status;
  }

  template <class T>
  Status upload(std::span<T> array, std::size_t offset) const;
  template <class View>
  Status place(Operand& operand, const View& host, View& seen);
  Status place_all();
  Status copy_all_in();
  Status launch_one(const Launch& launch, void* argument) const;
  Status encode(const TensorMapShape& shape, TensorMap* map) const;
  Status launch_all(const Forward& forward);
  Status enqueue(std::span<const Sequence> sequences, std::span<const std::int32_t> pages);

  const PlanState& state_;
  const Device& device_;
  const PreparedAttention& problem_;
  const AttentionTensors& host_;
  AttentionTensors seen_;
  CuStream stream_;
  Scratch scratch_;
  std::array<Operand, 5> operands_{{{"query"}, {"key"}, {"value"}, {"out"}, {"lse"}}};
};

/// Of pageable memory, which has been read when this returns.
template <class T>
Status Run::upload(std::span<T> array, std::size_t offset) const {
  if (array.empty()) return {};
  return SIATTN_CUDA_CALL(device_.driver(), copy_to_device, scratch_.at(offset), array.data(), array.size_bytes(),
                          stream_);
}

/// Says where the tensor lies; reserves room for a copy and gives the view the copy's strides.
template <class View>
Status Run::place(Operand& operand, const View& host, View& seen) {
  if (host.data == nullptr) return {};  // empty
  const Result<int> where = device_of(device_.driver(), host.data);
  if (!where) return where.status();
  if (*where >= 0) {
    if (*where == device_.number()) return {};
    return Status::invalid(std::string(operand.name) + " lies on device " + std::to_string(*where) +
                           ": the plan was made for device " + std::to_string(device_.number()));
  }
  operand.copied = true;
  operand.offset = scratch_.reserve(copy_bytes(host));
  seen.strides = copy_strides(host);
  return {};
}

Status Run::launch_one(const Launch& launch, void* argument) const {
  const Result<CuFunction> kernel = device_.kernel(launch.entry, launch.shared_bytes);
  if (!kernel) return kernel.status();
  void* arguments[] = {argument};
  Status status = SIATTN_CUDA_CALL(device_.driver(), launch, *kernel, static_cast<unsigned>(launch.blocks), 1, 1,
                                   static_cast<unsigned>(launch.threads), 1, 1,
                                   static_cast<unsigned>(launch.shared_bytes), stream_, arguments, nullptr);
  return status ? status : Status(status.code(), status.message() + " of " + launch.entry);
}

Status Run::encode(const TensorMapShape& shape, TensorMap* map) const {
  const CuTensorMapType type = problem_.dtype == DType::bfloat16 ? kCuTensorBfloat16 : kCuTensorFloat16;
  constexpr std::uint32_t kSteps[4] = {1, 1, 1, 1};
  return SIATTN_CUDA_CALL(device_.driver(), tensor_map_encode, map, type, 4, const_cast<void*>(shape.base),
                          shape.sizes.data(), shape.strides.data(), shape.box.data(), kSteps, kCuTensorInterleaveNone,
                          kCuTensorSwizzle128, kCuTensorPromotion256, kCuTensorFillZeros);
}

Status Run::launch_all(const Forward& forward) {
  Launches launches;
  if (Status status = launches_of(forward, problem_.dtype, &launches); !status) return status;
  PrefillSm90 sm90;
  const bool has_sm90 =
      device_.capability() == kCapabilitySm90 && prefill_sm90_of(forward, problem_.dtype, seen_, &sm90);
  for (int n = 0; n < launches.count; ++n) {
    Status status;
    if (has_sm90 && n == launches.prefill) {
      if (sm90.argument.tensor_copies) {
        status = encode(sm90.query, &sm90.argument.query);
        if (status) status = encode(sm90.key, &sm90.argument.key);
        if (status) status = encode(sm90.value, &sm90.argument.value);
      }
      if (status) status = launch_one(sm90.launch, &sm90.argument);
    } else {
      Forward argument = forward;
      status = launch_one(launches.list[static_cast<std::size_t>(n)], &argument);
    }
    if (!status) return status;
  }
  return {};
}

Status Run::place_all() {
  const auto put = [this](Operand& o, const auto& host, auto& seen) { return place(o, host, seen); };
  Status status = for_each_input(put);
  return status ? for_each_output(put) : status;
}

Status Run::copy_all_in() {
  Status status = for_each_input([this](const Operand& o, const TensorView& host, TensorView& seen) -> Status {
    if (!o.copied) return {};
    seen.data = scratch_.array<void>(o.offset);
    return copy_in(device_, host, scratch_.at(o.offset), stream_);
  });
  if (!status) return status;
  return for_each_output([this](const Operand& o, const MutableTensorView&, MutableTensorView& seen) -> Status {
    if (o.copied) seen.data = scratch_.array<void>(o.offset);
    return {};
  });
}

/// Everything but waiting.
Status Run::enqueue(std::span<const Sequence> sequences, std::span<const std::int32_t> pages) {
  const std::size_t sequences_at = scratch_.reserve(sequences.size_bytes());
  const std::size_t pages_at = scratch_.reserve(pages.size_bytes());
  const Forward extents = forward_of(problem_, seen_, sequences, {});
  const std::size_t states_at = scratch_.reserve(static_cast<std::size_t>(state_bytes(extents)));
  Status status = scratch_.allocate();
  if (status) status = copy_all_in();
  if (status) status = upload(sequences, sequences_at);
  if (status) status = upload(pages, pages_at);
  if (!status) return status;
  DeviceArrays arrays;
  arrays.sequences = scratch_.array<const Sequence>(sequences_at);
  arrays.tables = state_.tables();
  arrays.row_factors = state_.row_factors();
  if (!host_.pages.empty()) arrays.pages = scratch_.array<const std::int32_t>(pages_at);
  arrays.states = scratch_.array<void>(states_at);
  status = launch_all(forward_of(problem_, seen_, sequences, arrays));
  if (!status) return status;
  return for_each_output([this](const Operand& o, const MutableTensorView& host, MutableTensorView&) -> Status {
    return o.copied ? copy_out(device_, scratch_.at(o.offset), host, stream_) : Status{};
  });
}

Status Run::run() {
  if (Status status = place_all(); !status) return status;
  std::vector<Sequence> sequences = sequences_of(problem_, seen_);
  const std::vector<std::int32_t> pages = pages_of(seen_, sequences);
  Status status = enqueue(sequences, pages);
  // Also after an error: page-locked memory may still be read or written.
  if (std::ranges::any_of(operands_, &Operand::copied)) {
    Status waited = SIATTN_CUDA_CALL(device_.driver(), synchronize, stream_);
    if (status) status = std::move(waited);
  }
  return status;
}

/// Every kernel that a run of the plan can need is there, and fits the device.
Status find_kernels(const Device& device, const PreparedAttention& problem) {
  const AttentionShape& shape = problem.shape;
  AttentionTensors tensors;
  for (MutableTensorView* view : {&tensors.out, &tensors.lse}) view->dtype = problem.dtype;
  for (TensorView* view : {&tensors.query, &tensors.key, &tensors.value}) view->dtype = problem.dtype;
  for (const std::int64_t queries : {shape.query_len, std::min<std::int64_t>(shape.query_len, 1)}) {
    Sequence sequence;
    sequence.query_len = static_cast<std::int32_t>(queries);
    sequence.query_rows = static_cast<std::int32_t>(shape.query_len);
    sequence.kv_len = static_cast<std::int32_t>(shape.kv_len);
    sequence.query_offset = problem.options.query_offset.value_or(shape.kv_len - queries);
    Launches launches;
    Status status = launches_of(forward_of(problem, tensors, std::span(&sequence, 1), {}), problem.dtype, &launches);
    for (const Launch& launch : launches) {
      if (status) status = device.kernel(launch.entry, launch.shared_bytes).status();
    }
    if (status && launches.prefill >= 0 && device.capability() == kCapabilitySm90) {
      const std::int32_t bytes = prefill_sm90_shared_bytes(shape.head_dim, shape.value_dim);
      status = device.kernel(prefill_sm90_entry(problem.dtype, shape.head_dim, shape.value_dim), bytes).status();
    }
    if (!status) return status;
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const PlanState>> PlanState::create(std::shared_ptr<const Device> device,
                                                           const PreparedAttention& problem) {
  if (Status status = find_kernels(*device, problem); !status) return status;
  auto state = std::make_shared<PlanState>();
  const std::vector<Entry> tables = device_tables(*problem.tables, problem.shape.query_heads);
  auto uploaded = DeviceMemory::create(device, tables.size() * sizeof(Entry), tables.data());
  if (!uploaded) return uploaded.status();
  state->tables_ = *std::move(uploaded);
  if (const std::vector<float>& factors = problem.tables->row_factors; !factors.empty()) {
    uploaded = DeviceMemory::create(device, factors.size() * sizeof(float), factors.data());
    if (!uploaded) return uploaded.status();
    state->row_factors_ = *std::move(uploaded);
  }
  state->device_ = std::move(device);
  return std::shared_ptr<const PlanState>(std::move(state));
}

std::shared_ptr<const Device> plan_device(const AttentionPlan& plan) {
  return static_cast<const PlanState*>(plan.prepared().state.get())->device();
}

Status run_on_device(const PlanState& state, const PreparedAttention& problem, const AttentionTensors& tensors) {
  const Current current(*state.device());
  if (!current.status()) return current.status();
  return Run(state, problem, tensors).run();
}

}  // namespace siattn::gpu
