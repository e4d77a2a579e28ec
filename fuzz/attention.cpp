// SPDX-License-Identifier: Apache-2.0
// Problems, options and tensors of every kind against the contract of attention.hpp, stated here a second time: what is
// wrong is refused by its name and nothing is written; what is accepted runs inside memory of exactly its size, and
// strides change no bit of it.
#include <cmath>
#include <set>
#include <span>

#include <siattn/attention.hpp>
#include <siattn/backend.hpp>

#include "dispatch/validate.hpp"
#include "fuzz/support.hpp"

namespace siattn::fuzz {
namespace {

constexpr Wide largest = 2147483647;  // 2^31 - 1
/// Limits of what is planned and run here, so that an input takes milliseconds.
constexpr Wide most_table_entries = 1 << 14;
constexpr Wide most_work = 1 << 15;
constexpr std::size_t most_workspace = std::size_t{1} << 22;
constexpr std::int64_t most_listed = 64;

PerHead read_per_head(Bytes& in, std::int64_t heads) {
  const std::uint8_t kind = in.byte();
  std::int64_t count = kind == 0 ? 1 : kind == 1 ? heads : kind % 5;
  count = std::clamp<std::int64_t>(count, 0, most_listed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(in.number());
  return values;
}

LogitTransform read_transform(Bytes& in, std::int64_t heads) {
  switch (in.byte() % 5) {
    case 0: {
      ScaleInvariant t;
      t.tau = read_per_head(in, heads);
      t.alpha = in.number();
      t.beta = in.number();
      return t;
    }
    case 1: return LogN{read_per_head(in, heads)};
    case 2: return InfoScale{in.number()};
    case 3: return Alibi{read_per_head(in, heads)};
    default: return NoTransform{};
  }
}

AttentionProblem read_problem(Bytes& in) {
  AttentionProblem problem;
  problem.dtype = static_cast<DType>(in.byte());
  AttentionShape& s = problem.shape;
  for (std::int64_t* extent :
       {&s.batch, &s.query_heads, &s.kv_heads, &s.query_len, &s.kv_len, &s.head_dim, &s.value_dim}) {
    *extent = in.integer();
  }
  AttentionOptions& o = problem.options;
  o.mask = static_cast<Mask>(in.byte());
  const std::uint8_t given = in.byte();
  if ((given & 1) != 0) o.window = in.integer();
  if ((given & 2) != 0) o.query_offset = in.integer();
  if ((given & 4) != 0) o.softmax_scale = in.number();
  if ((given & 8) != 0) o.n_sink = in.integer();
  if ((given & 16) != 0) o.transform = read_transform(in, s.query_heads);
  if ((given & 32) != 0) {
    o.calibration.mean = read_per_head(in, s.query_heads);
    o.calibration.standard_deviation = read_per_head(in, s.query_heads);
  }
  return problem;
}

/// What is wrong with the options, as messages name it. `unsure` where rounding may decide.
struct Faults {
  std::vector<std::string> names;
  bool unsure = false;
  void add(bool wrong, const char* name) {
    if (wrong) names.emplace_back(name);
  }
};

void check_per_head(Faults& faults, const char* name, const PerHead& list, std::int64_t heads, double least) {
  const auto count = static_cast<std::int64_t>(list.values.size());
  bool bad = count != 1 && count != heads;
  for (const double value : list.values) bad |= !(std::isfinite(value) && value >= least);
  faults.add(bad, name);
}

void check_transform(Faults& faults, const LogitTransform& transform, std::int64_t heads) {
  constexpr double any = std::numeric_limits<double>::lowest();
  if (const auto* t = std::get_if<ScaleInvariant>(&transform)) {
    check_per_head(faults, "tau", t->tau, heads, 1e-290);
    const bool positive = t->alpha > 0 && t->beta > 0 && std::isfinite(t->alpha) && std::isfinite(t->beta);
    faults.add(!(t->alpha > 0 && std::isfinite(t->alpha)), "alpha");
    faults.add(!(t->beta > 0 && std::isfinite(t->beta)), "beta");
    if (positive) {
      const long double quotient = static_cast<long double>(t->beta) / t->alpha;
      const long double least = std::log(static_cast<long double>(t->alpha));
      faults.add(quotient < least || !std::isfinite(static_cast<double>(quotient)), "beta");
      faults.unsure |= std::abs(quotient - least) <= 1e-12L * std::abs(least);
    }
  } else if (const auto* logn = std::get_if<LogN>(&transform)) {
    check_per_head(faults, "logn scale", logn->scale, heads, any);
  } else if (const auto* info = std::get_if<InfoScale>(&transform)) {
    faults.add(!(info->train_length > 1 && std::isfinite(info->train_length)), "train_length");
  } else if (const auto* alibi = std::get_if<Alibi>(&transform)) {
    if (!alibi->slopes.values.empty()) check_per_head(faults, "ALiBi slopes", alibi->slopes, heads, any);
  }
}

void check_calibration(Faults& faults, const AttentionOptions& o, std::int64_t heads) {
  const Calibration& c = o.calibration;
  const std::size_t before = faults.names.size();
  check_per_head(faults, "calibration mean", c.mean, heads, std::numeric_limits<double>::lowest());
  check_per_head(faults, "calibration standard_deviation", c.standard_deviation, heads, 1e-290);
  if (faults.names.size() > before || c.mean.values.empty() || c.standard_deviation.values.empty()) return;
  const bool by_row = std::holds_alternative<LogN>(o.transform) || std::holds_alternative<InfoScale>(o.transform);
  bool bad = false;
  for (std::size_t h = 0; h < std::max(c.mean.values.size(), c.standard_deviation.values.size()); ++h) {
    const long double ratio = std::abs(static_cast<long double>(c.mean.at(h)) / c.standard_deviation.at(h));
    bad |= ratio > 1e290L || (by_row && ratio > 0);
    faults.unsure |= std::abs(ratio - 1e290L) < 1e276L;
  }
  faults.add(bad, "calibration mean");
}

Faults faults_of(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape;
  const AttentionOptions& o = problem.options;
  Faults faults;
  faults.add(static_cast<int>(problem.dtype) > 3, "dtype");
  const auto outside = [](Wide value, Wide least) { return value < least || value > largest; };
  faults.add(outside(s.batch, 0), "batch");
  faults.add(outside(s.query_heads, 1), "query_heads");
  faults.add(outside(s.kv_heads, 1), "kv_heads");
  faults.add(outside(s.query_len, 0), "query_len");
  faults.add(outside(s.kv_len, 0), "kv_len");
  faults.add(outside(s.head_dim, 1), "head_dim");
  faults.add(outside(s.value_dim, 1), "value_dim");
  if (faults.names.empty()) {
    faults.add(s.query_heads % s.kv_heads != 0, "query_heads");
    const auto check_size = [&](const char* name, const Shape4& shape) {
      long double elements = 1;
      for (const std::int64_t extent : shape) elements *= static_cast<long double>(extent);
      faults.add(elements >= 0x1p60L, name);
      faults.unsure |= std::abs(elements - 0x1p60L) < 0x1p12L;
    };
    check_size("query", {s.batch, s.query_heads, s.query_len, s.head_dim});
    check_size("key", {s.batch, s.kv_heads, s.kv_len, s.head_dim});
    check_size("value", {s.batch, s.kv_heads, s.kv_len, s.value_dim});
    check_size("out", {s.batch, s.query_heads, s.query_len, s.value_dim});
    check_size("tables", {1, 1, s.query_heads, s.query_len + s.kv_len});
  }
  faults.add(static_cast<int>(o.mask) > 1, "mask");
  faults.add(o.window && *o.window < 1, "window");
  faults.add(o.n_sink < 0, "n_sink");
  faults.add(o.softmax_scale && !std::isfinite(*o.softmax_scale), "softmax_scale");
  if (o.query_offset) {
    const Wide last = Wide{*o.query_offset} + std::max<Wide>(s.query_len - Wide{1}, 0);
    faults.add(*o.query_offset < -largest || last > largest, "query_offset");
  }
  check_transform(faults, o.transform, s.query_heads);
  check_calibration(faults, o, s.query_heads);
  return faults;
}

/// The tensors of a run: operands, and lengths of which the last may be wrong.
struct Tensors {
  std::array<Operand, 5> operands;  // query, key, value, out, lse
  bool with_lse = false;
  std::vector<std::int64_t> query_lengths;
  std::vector<std::int64_t> kv_lengths;

  std::size_t count() const { return with_lse ? 5 : 4; }

  AttentionTensors views() const {
    return {operands[0].view,
            operands[1].view,
            operands[2].view,
            operands[3].view,
            with_lse ? operands[4].view : MutableTensorView{},
            query_lengths,
            kv_lengths};
  }
};

constexpr std::array<const char*, 5> operand_names{"query", "key", "value", "out", "lse"};

std::array<Shape4, 5> shapes_of(const AttentionShape& s) {
  return {{{s.batch, s.query_heads, s.query_len, s.head_dim},
           {s.batch, s.kv_heads, s.kv_len, s.head_dim},
           {s.batch, s.kv_heads, s.kv_len, s.value_dim},
           {s.batch, s.query_heads, s.query_len, s.value_dim},
           {s.batch, s.query_heads, s.query_len, 1}}};
}

DType type_of_operand(DType dtype, std::size_t k) { return k < 4 || dtype == DType::float64 ? dtype : DType::float32; }

std::vector<std::int64_t> read_lengths(Bytes& in, std::int64_t batch) {
  const std::uint8_t kind = in.byte();
  std::vector<std::int64_t> lengths;
  const std::int64_t count = kind == 0 ? 0 : kind < 128 ? batch : kind % 8;
  if (count > most_listed) return lengths;
  for (std::int64_t b = 0; b < count; ++b) lengths.push_back(in.integer());
  return lengths;
}

Tensors read_tensors(Bytes& in, const AttentionProblem& problem) {
  Tensors tensors;
  const std::uint8_t kind = in.byte();
  tensors.with_lse = (kind & 1) != 0;
  const std::array<Shape4, 5> shapes = shapes_of(problem.shape);
  for (std::size_t k = 0; k < 5; ++k) tensors.operands[k] = Operand(shapes[k], type_of_operand(problem.dtype, k), in);
  if ((kind & 2) != 0) {
    const std::uint8_t pair = in.byte();
    if (pair % 5 != pair / 5 % 5) tensors.operands[pair % 5].alias(tensors.operands[pair / 5 % 5]);
  }
  if (tensors.operands[4].view.data == nullptr) tensors.with_lse = false;
  tensors.query_lengths = read_lengths(in, problem.shape.batch);
  tensors.kv_lengths = read_lengths(in, problem.shape.batch);
  return tensors;
}

bool bad_lengths(const std::vector<std::int64_t>& lengths, std::int64_t batch, std::int64_t most) {
  if (lengths.empty()) return false;
  if (static_cast<std::int64_t>(lengths.size()) != batch) return true;
  return std::ranges::any_of(lengths, [most](std::int64_t length) { return length < 0 || length > most; });
}

/// The names that a message may begin with; `good` or `bad` where the contract leaves no choice.
struct Judgement {
  std::vector<std::string> names;
  Verdict verdict = Verdict::good;
  void add(Verdict one, const char* name) {
    if (one == Verdict::good) return;
    names.emplace_back(name);
    if (verdict != Verdict::bad) verdict = one;
  }
};

Judgement judge(const Tensors& tensors, const AttentionShape& shape) {
  Judgement judgement;
  for (std::size_t k = 0; k < tensors.count(); ++k) {
    judgement.add(tensors.operands[k].verdict(k >= 3), operand_names[k]);
  }
  if (judgement.verdict != Verdict::bad) {
    for (std::size_t k = 3; k < tensors.count(); ++k) {
      for (std::size_t other = 0; other < k; ++other) {
        judgement.add(apart(tensors.operands[k], tensors.operands[other]), operand_names[k]);
      }
    }
  }
  const auto verdict = [](bool bad) { return bad ? Verdict::bad : Verdict::good; };
  judgement.add(verdict(bad_lengths(tensors.query_lengths, shape.batch, shape.query_len)), "query_lengths");
  judgement.add(verdict(bad_lengths(tensors.kv_lengths, shape.batch, shape.kv_len)), "kv_lengths");
  return judgement;
}

void store(std::byte* at, DType dtype, double value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof rounded); };
  switch (dtype) {
    case DType::float32: return put(static_cast<float>(value));
    case DType::float64: return put(value);
    case DType::bfloat16: return put(to_bfloat16(static_cast<float>(value)));
    case DType::float16: return put(to_float16(static_cast<float>(value)));
    case DType::int8: return put(static_cast<std::int8_t>(value));
  }
}

/// Inputs of -1 .. 1 with NaN between the rows (every byte 0xFF), outputs with one byte throughout.
void fill(Tensors& tensors, std::byte canary) {
  for (std::size_t k = 0; k < 5; ++k) {
    Operand& x = tensors.operands[k];
    std::ranges::fill(x.memory(), k < 3 ? std::byte{0xFF} : canary);
    if (k >= 3 || !x.has_memory() || x.verdict(false) == Verdict::bad || work_of(x.view.shape) > 16 * most_work)
      continue;
    std::uint32_t state = 12345 + static_cast<std::uint32_t>(k);
    for_each_element(x.view, [&](std::int64_t offset) {
      state = state * 1664525 + 1013904223;
      store(x.element(offset), x.view.dtype, static_cast<double>(state >> 16) / 32768 - 1);
    });
  }
}

std::vector<std::vector<std::byte>> memories(Tensors& tensors) {
  std::vector<std::vector<std::byte>> list;
  for (Operand& x : tensors.operands) list.emplace_back(x.memory().begin(), x.memory().end());
  return list;
}

/// Runs on a workspace of exactly the bytes asked for, at an odd address; `missing` of them are left out.
Status run(const AttentionPlan& plan, const Tensors& tensors, std::size_t missing = 0) {
  const std::size_t bytes = plan.workspace_bytes() - missing;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
  return plan.run(tensors.views(), {memory.get() + 1, bytes});
}

double load(const std::byte* at, DType dtype) {
  const auto get = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::float32: return get(float{});
    case DType::float64: return get(double{});
    case DType::bfloat16: return to_float(get(bfloat16{}));
    case DType::float16: return to_float(get(float16{}));
    case DType::int8: return get(std::int8_t{});
  }
  return 0;
}

/// Whether logits stay far from where float32 ends, so that a row of out is an average of values.
bool is_tame(const AttentionProblem& problem) {
  if (problem.options.softmax_scale && std::abs(*problem.options.softmax_scale) > 1e3) return false;
  const auto small = [](const PerHead& list) {
    return std::ranges::all_of(list.values, [](double x) { return std::abs(x) < 1e3; });
  };
  const Calibration& c = problem.options.calibration;
  if (!small(c.mean) || !std::ranges::all_of(c.standard_deviation.values, [](double sd) { return sd > 0.1; })) {
    return false;
  }
  const LogitTransform& transform = problem.options.transform;
  if (const auto* t = std::get_if<ScaleInvariant>(&transform)) {
    return std::ranges::all_of(t->tau.values, [](double tau) { return tau > 1e-6; }) && t->alpha > 1e-3 &&
           t->alpha < 1e3 && t->beta < 1e3;
  }
  if (const auto* t = std::get_if<LogN>(&transform)) return small(t->scale);
  if (const auto* t = std::get_if<InfoScale>(&transform)) return t->train_length > 1.01;
  if (const auto* t = std::get_if<Alibi>(&transform)) return small(t->slopes);
  return true;
}

/// A run of what the contract takes: inputs stay, gaps stay, the same bits again and from dense copies.
void require_good_run(const AttentionPlan& plan, const AttentionProblem& problem, Tensors& tensors) {
  fill(tensors, std::byte{0xA5});
  const auto before = memories(tensors);
  const Status first = run(plan, tensors);
  require(first.ok(), "what was validated runs", first.message());
  const auto after = memories(tensors);
  for (std::size_t k = 0; k < 3; ++k) require(after[k] == before[k], "inputs stay as they are");

  // Dense copies of the inputs, outputs that hold something else before.
  Tensors dense;
  dense.with_lse = tensors.with_lse;
  dense.query_lengths = tensors.query_lengths;
  dense.kv_lengths = tensors.kv_lengths;
  for (std::size_t k = 0; k < 5; ++k) {
    dense.operands[k] = Operand::dense(shapes_of(problem.shape)[k], type_of_operand(problem.dtype, k));
    if (!dense.operands[k].has_memory()) return;  // a broadcast input, too large when it is none
    if (k >= 3) continue;
    const std::vector<std::byte> elements = tensors.operands[k].elements();
    std::ranges::copy(elements, dense.operands[k].memory().begin());
  }
  for (std::size_t k = 3; k < 5; ++k) std::ranges::fill(dense.operands[k].memory(), std::byte{0x5A});
  const Status second = run(plan, dense);
  require(second.ok(), "dense tensors run", second.message());
  for (std::size_t k = 3; k < tensors.count(); ++k) {
    require(tensors.operands[k].elements() == dense.operands[k].elements(),
            "every element is written, and strides change no bit", operand_names[k]);
  }

  // An input that begins where another does may read the NaN between the other's rows.
  const bool tame = is_tame(problem) && std::ranges::all_of(std::span(tensors.operands).first(3), &Operand::has_memory);
  for (std::size_t k = 3; k < tensors.count(); ++k) {
    Operand& x = tensors.operands[k];
    for_each_element(x.view, [&](std::int64_t offset) {
      const double value = load(x.element(offset), x.view.dtype);
      require(!tame || (k == 3 ? std::abs(value) <= 1.01 : !std::isnan(value) && value < HUGE_VAL),
              "out is an average of values, lse no NaN", std::to_string(value));
      std::memset(x.element(offset), 0xA5, size_of(x.view.dtype));
    });
    require(std::ranges::all_of(x.memory(), [](std::byte b) { return b == std::byte{0xA5}; }),
            "nothing is written between the elements", operand_names[k]);
  }
}

void test_run(const AttentionPlan& plan, const AttentionProblem& problem, Tensors& tensors, const Status& validated,
              bool short_workspace) {
  if (plan.workspace_bytes() > most_workspace) return;
  if (validated) {
    for (const Shape4& shape : shapes_of(problem.shape)) {
      if (work_of(shape) > most_work) return;
    }
    const AttentionShape& s = problem.shape;
    if (work_of({s.batch, s.query_heads, s.query_len, 1}) * work_of({1, 1, s.kv_len, s.head_dim + s.value_dim}) >
        16 * most_work) {
      return;
    }
    for (std::size_t k = 0; k < tensors.count(); ++k) {
      if (!tensors.operands[k].can_be_read()) return;
    }
    if (!short_workspace) {
      return require_good_run(plan, problem, tensors);
    }
  }
  if (short_workspace && plan.workspace_bytes() == 0) return;
  fill(tensors, std::byte{0xA5});
  const auto before = memories(tensors);
  const Status status = run(plan, tensors, short_workspace ? 1 : 0);
  require(!status.ok(), "a run of what is wrong is refused");
  require(validated.ok() ? status.message().rfind("workspace", 0) == 0 : same(status, validated),
          "run() says what validation says", status.message());
  require(memories(tensors) == before, "a run that is refused writes nothing", status.message());
}

void test(Bytes in) {
  static const std::vector<const Backend*> available = [] {
    std::vector<const Backend*> list;
    for (const Backend* backend : backends()) {
      if (backend->available()) list.push_back(backend);
    }
    return list;
  }();
  const Backend& backend = *available[in.byte() % available.size()];
  const std::uint8_t flags = in.byte();
  const std::int64_t threads = (flags & 1) != 0 ? std::clamp<std::int64_t>(in.integer(), -1000, 10000) : 1;
  const AttentionProblem problem = read_problem(in);

  const Faults faults = faults_of(problem);
  const Status valid = dispatch::validate_problem(problem);
  require(same(valid, dispatch::validate_problem(problem)), "the same problem gives the same verdict");
  require(faults.unsure || valid.ok() == faults.names.empty(), "a problem is judged as the contract says",
          valid.ok() ? joined(faults.names) : valid.message());
  if (!valid) {
    require_good_error(valid);
    require(valid.code() == StatusCode::invalid_argument, "a wrong problem is a wrong argument", valid.message());
    require(faults.unsure || begins_with_one_of(valid.message(), faults.names), "a message names what is wrong",
            valid.message());
    require(same(AttentionPlan::create_on(backend, problem, {"", static_cast<int>(threads)}).status(), valid),
            "planning says what validation says", valid.message());
    return;
  }

  Tensors tensors = read_tensors(in, problem);
  const Judgement judgement = judge(tensors, problem.shape);
  PreparedAttention prepared;
  prepared.shape = problem.shape;
  prepared.dtype = prepared.kv_dtype = problem.dtype;
  prepared.options = problem.options;
  const Status fits = dispatch::validate_tensors(prepared, tensors.views());
  require(judgement.verdict == Verdict::maybe || fits.ok() == (judgement.verdict == Verdict::good),
          "tensors are judged as the contract says", fits.ok() ? joined(judgement.names) : fits.message());
  require(same(fits, dispatch::validate_tensors(prepared, tensors.views())),
          "the same tensors give the same verdict");
  if (!fits) {
    require_good_error(fits);
    require(begins_with_one_of(fits.message(), judgement.names), "a message names what is wrong", fits.message());
  }

  const AttentionShape& s = problem.shape;
  if (Wide{s.query_heads} * (s.query_len + s.kv_len) > most_table_entries) return;
  const auto plan = AttentionPlan::create_on(backend, problem, {"", static_cast<int>(threads)});
  if (!plan) {
    require_good_error(plan.status());
    const std::string& message = plan.status().message();
    const bool bad_threads = threads < 0 || threads > 1024;
    require(message.find("threads = ") == 0 ? bad_threads
            : plan.status().code() == StatusCode::unsupported
                ? problem.dtype == DType::float64 || s.head_dim > 512 || s.value_dim > 512
                : message.find("the transform's ") == 0,
            "a valid problem is refused for its type, its size, its threads or what float32 tables hold", message);
    return;
  }
  test_run(*plan, problem, tensors, fits, (flags & 2) != 0);
}

}  // namespace
}  // namespace siattn::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  siattn::fuzz::test({data, size});
  return 0;
}
