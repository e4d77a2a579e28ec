// SPDX-License-Identifier: Apache-2.0
// load, save and sets of outputs: how a spec is taken apart, and what is left behind on failure.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/io/load.hpp"
#include "tools/io/safetensors.hpp"
#include "tools/io/save.hpp"
#include "tools/io/scratch.hpp"

namespace siattn::io {
namespace {

using Names = std::vector<std::string>;

Tensor filled(float value, Shape shape = {2, 3}) {
  Tensor tensor = *Tensor::zeros(DType::float32, std::move(shape));
  for (float& x : tensor.values<float>()) x = value;
  return tensor;
}

float first_of(const Result<Tensor>& tensor) { return tensor.ok() ? tensor->values<float>()[0] : -1.0f; }

TEST(IoLocation, TakesSpecsApart) {
  const auto parts = [](std::string_view spec) {
    const Result<TensorLocation> location = parse_location(spec);
    if (!location.ok()) return "error " + location.status().message();
    return (location->format == FileFormat::npy ? "npy " : "st ") + location->path + " | " + location->name;
  };
  EXPECT_EQ(parts("q.npy"), "npy q.npy | ");
  EXPECT_EQ(parts("q.safetensors"), "st q.safetensors | ");
  EXPECT_EQ(parts("q.safetensors:a"), "st q.safetensors | a");
  EXPECT_EQ(parts("q.safetensors:layer.3/a:b"), "st q.safetensors | layer.3/a:b");
  EXPECT_EQ(parts("run:12/q:1.npy"), "npy run:12/q:1.npy | ");
  EXPECT_EQ(parts("run:12/q:1.safetensors:a"), "st run:12/q:1.safetensors | a");
  EXPECT_EQ(parts("q.safetensors:a.npy"), "st q.safetensors | a.npy");
  EXPECT_EQ(parts("q.safetensors:old.safetensors:a"), "st q.safetensors:old.safetensors | a");
  EXPECT_EQ(parts("q.safetensors:"), "error q.safetensors:: the name after ':' is empty, expected that of a tensor");
  EXPECT_EQ(parts("q.npy:a"),
            "error q.npy:a: an .npy file holds one tensor without a name, expected no ':' after .npy");
  EXPECT_EQ(parts("d.npy/q.bin"), "error d.npy/q.bin: ends in '.bin', expected .npy or .safetensors[:NAME]");
  EXPECT_EQ(parts("d.x/q"), "error d.x/q: ends in 'q', expected .npy or .safetensors[:NAME]");
  EXPECT_EQ(parts("q.NPY"), "error q.NPY: ends in '.NPY', expected .npy or .safetensors[:NAME]");
  EXPECT_EQ(parts("q.txt:a"), "error q.txt:a: ends in '.txt:a', expected .npy or .safetensors[:NAME]");
  EXPECT_EQ(parts(""), "error the path is empty, expected FILE.npy or FILE.safetensors[:NAME]");
}

TEST(IoLocation, AnExistingFileIsThatFile) {
  const ScratchFolder folder;
  const Tensor tensor = filled(3);
  ASSERT_TRUE(save(folder / "plain.npy", tensor).ok());
  std::filesystem::rename(folder / "plain.npy", folder / "q.safetensors:a.npy");
  EXPECT_EQ(first_of(load(folder / "q.safetensors:a.npy")), 3.0f);
}

TEST(IoLoad, RoundTripsOfEveryFormatTypeAndRank) {
  const ScratchFolder folder;
  for (const char* spec : {"t.npy", "a:b.npy", "t.safetensors", "t.safetensors:q", "a:b.safetensors:layer:0"}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      for (const Shape& shape : {Shape{}, {3}, {0, 4}, {2, 3}, {2, 1, 3}, {2, 3, 1, 2}, {1, 2, 1, 2, 1}}) {
        const Tensor tensor = *convert(filled(-1.5f, shape), dtype);
        ASSERT_TRUE(save(folder / spec, tensor).ok());
        const Result<Tensor> back = load(folder / spec);
        ASSERT_TRUE(back.ok()) << back.status().message();
        EXPECT_EQ(back->dtype(), dtype);
        EXPECT_EQ(back->shape(), shape);
        EXPECT_EQ(std::memcmp(back->data(), tensor.data(), tensor.bytes()), 0);
      }
    }
  }
}

TEST(IoLoad, ErrorsAreOneLineThatBeginsWithTheFile) {
  const ScratchFolder folder;
  write_bytes(folder / "bad\nname.npy", "x");
  for (const char* name : {"missing.npy", "missing.safetensors:q", "bad\nname.npy", "q.bin"}) {
    const std::string message = load(folder / name).status().message();
    EXPECT_EQ(message.find(folder / std::string(name).substr(0, 3)), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(load(folder / "missing.safetensors:q").status().message(),
            (folder / "missing.safetensors") + ": cannot open it for reading: No such file or directory");
  EXPECT_EQ(load(folder / "missing.npy").status().code(), StatusCode::unavailable);
}

TEST(IoSave, ErrorsLeaveNothing) {
  const ScratchFolder folder;
  const Tensor tensor = filled(1);
  EXPECT_EQ(save(folder / "q.bin", tensor).message(),
            (folder / "q.bin") + ": ends in '.bin', expected .npy or .safetensors[:NAME]");
  EXPECT_FALSE(save(folder / "no/q.npy", tensor).ok());
  EXPECT_FALSE(save(folder / "q.safetensors:__metadata__", tensor).ok());
  EXPECT_FALSE(save(folder / "q.npy", *Tensor::zeros(DType::float32, Shape(40, 1))).ok());
  EXPECT_EQ(folder.names(), Names{});
}

TEST(IoSave, DevicesAndPipesTakeNpy) {
  EXPECT_TRUE(save("/dev/null", filled(1)).ok());
  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = read_bytes(folder / "pipe"); });
  EXPECT_TRUE(save(folder / "pipe", filled(1)).ok());
  reader.join();
  ASSERT_TRUE(save(folder / "file.npy", filled(1)).ok());
  EXPECT_EQ(received, read_bytes(folder / "file.npy"));
}

TEST(IoOutputSet, AppearsTogether) {
  const ScratchFolder folder;
  OutputSet outputs;
  ASSERT_TRUE(outputs.reserve(folder / "out.npy", "out").ok());
  ASSERT_TRUE(outputs.reserve(folder / "rest.safetensors", "lse").ok());
  ASSERT_TRUE(outputs.reserve(folder / "rest.safetensors:w", "weights").ok());
  EXPECT_EQ(outputs.size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.npy"));
  const Tensor out = filled(1);
  const Tensor lse = filled(2);
  const Tensor weights = filled(3);
  const Status status = outputs.commit({&out, &lse, &weights}, {{"tau", "10"}});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(folder.names(), (Names{"out.npy", "rest.safetensors"}));
  EXPECT_EQ(first_of(load(folder / "out.npy")), 1.0f);
  EXPECT_EQ(first_of(load(folder / "rest.safetensors:lse")), 2.0f);
  EXPECT_EQ(first_of(load(folder / "rest.safetensors:w")), 3.0f);
  EXPECT_EQ(SafetensorsFile::open(folder / "rest.safetensors")->metadata(), (Metadata{{"tau", "10"}}));
}

TEST(IoOutputSet, FindsOutputsThatWouldBeOne) {
  const ScratchFolder folder;
  std::filesystem::create_directory_symlink(".", folder / "same");
  const auto collide = [&](const char* first, const char* second) {
    OutputSet outputs;
    EXPECT_TRUE(outputs.reserve(folder / first, "x").ok());
    const Status status = outputs.reserve(folder / second, "x");
    if (status.ok()) return false;
    EXPECT_EQ(status.message(), (folder / second) + ": two outputs go there, expected another file or name");
    return true;
  };
  EXPECT_TRUE(collide("a.npy", "a.npy"));
  EXPECT_TRUE(collide("a.npy", "./a.npy"));
  EXPECT_TRUE(collide("a.npy", "same/a.npy"));
  EXPECT_TRUE(collide("a.safetensors:q", "a.safetensors:q"));
  EXPECT_TRUE(collide("a.safetensors", "a.safetensors:x"));
  EXPECT_FALSE(collide("a.safetensors:q", "a.safetensors:k"));
  EXPECT_FALSE(collide("a.npy", "b.npy"));
  OutputSet outputs;
  EXPECT_TRUE(outputs.reserve("/dev/null", "x").ok());
  EXPECT_TRUE(outputs.reserve("/dev/null", "x").ok());
  const Tensor tensor = filled(1);
  EXPECT_TRUE(outputs.commit({&tensor, &tensor}).ok());
  EXPECT_EQ(folder.names(), Names{"same"});
}

TEST(IoOutputSet, AnyFailureLeavesNone) {
  const ScratchFolder folder;
  const Tensor good = filled(1);
  const Tensor bad = *Tensor::zeros(DType::float32, Shape(40, 1));
  {
    OutputSet outputs;  // dropped without a commit, as when the computation fails
    EXPECT_TRUE(outputs.reserve(folder / "a.npy", "a").ok());
    EXPECT_FALSE(outputs.reserve(folder / "no/b.npy", "b").ok());
  }
  EXPECT_EQ(folder.names(), Names{});
  OutputSet outputs;
  EXPECT_TRUE(outputs.reserve(folder / "a.npy", "a").ok());
  EXPECT_TRUE(outputs.reserve(folder / "b.npy", "b").ok());
  EXPECT_FALSE(outputs.commit({&good, &bad}).ok());
  EXPECT_EQ(folder.names(), Names{});
  EXPECT_EQ(outputs.size(), 0u);
  EXPECT_TRUE(outputs.reserve(folder / "a.npy", "a").ok());
  EXPECT_TRUE(outputs.reserve(folder / "b.npy", "b").ok());
  std::filesystem::create_directory(folder / "b.npy");  // in the way, too late to be seen by reserve()
  EXPECT_FALSE(outputs.commit({&good, &good}).ok());
  EXPECT_EQ(folder.names(), Names{"b.npy"});
  EXPECT_TRUE(outputs.reserve(folder / "a.npy", "a").ok());
  EXPECT_EQ(outputs.commit({}).code(), StatusCode::internal) << "one output, no tensor";
  EXPECT_EQ(folder.names(), Names{"b.npy"});
}

}  // namespace
}  // namespace siattn::io
