// SPDX-License-Identifier: Apache-2.0
// .safetensors files made by hand: reading by name, and headers that lie.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tools/io/safetensors.hpp"
#include "tools/io/scratch.hpp"
#include "tools/io/text.hpp"

namespace {
int aligned_allocations = 0;  // only tensors ask for their alignment
}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++aligned_allocations;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0));
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }

namespace siattn::io {
namespace {

/// Length, header, data.
std::string safetensors(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xFF);
  return file.append(header).append(data);
}

/// A file of the tensor "q" alone.
std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                       std::size_t data_bytes) {
  return safetensors(R"({"q":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
                     std::string(data_bytes, '\0'));
}

class IoSafetensors : public testing::Test {
 protected:
  Result<SafetensorsFile> open(const std::string& bytes) {
    write_bytes(path_, bytes);
    return SafetensorsFile::open(path_);
  }

  /// The message without the path, after checks that every refusal passes.
  std::string refusal(const std::string& bytes) {
    const int before = aligned_allocations;
    const Result<SafetensorsFile> file = open(bytes);
    EXPECT_FALSE(file.ok());
    EXPECT_EQ(aligned_allocations, before) << "memory was taken for what is refused";
    const std::string& message = file.status().message();
    EXPECT_EQ(message.find(path_ + ": "), 0u) << message;
    EXPECT_TRUE(is_utf8(message) && message.find('\n') == std::string::npos) << message;
    return message.substr(std::min(message.size(), path_.size() + 2));
  }

  std::string header_refusal(const std::string& header) { return refusal(safetensors(header, "1234")); }

  ScratchFolder folder_;
  std::string path_ = folder_ / "t.safetensors";
};

TEST_F(IoSafetensors, ReadsByName) {
  const std::string header = R"({"__metadata__":{"made":"by hand"},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                             R"("a":{"shape":[1,1],"data_offsets":[0,4],"dtype":"I32"},)"
                             R"("c/d:e":{"dtype":"BF16","shape":[],"data_offsets":[12,14]}})";
  const float values[2] = {1.5f, -2.0f};
  std::string data = "1234" + std::string(reinterpret_cast<const char*>(values), 8) + "\xc0\x3f";
  const Result<SafetensorsFile> file = open(safetensors(header + "   ", data));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata(), (Metadata{{"made", "by hand"}}));
  ASSERT_EQ(file->entries().size(), 3u);
  EXPECT_EQ(file->entries()[0].name, "a") << "in the order of their data";
  EXPECT_EQ(file->entries()[0].dtype, "I32");
  EXPECT_EQ(file->entries()[0].shape, (Shape{1, 1}));
  const Result<Tensor> b = file->read("b");
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_EQ(b->values<float>()[1], -2.0f);
  EXPECT_EQ(file->read("c/d:e")->values<bfloat16>()[0].bits, 0x3FC0);
  EXPECT_EQ(file->read("a").status().message(), path_ + ": tensor 'a' has dtype 'I32', expected F32, F64, F16 or BF16");
  EXPECT_EQ(file->read("a").status().code(), StatusCode::unsupported);
  EXPECT_EQ(file->read("x").status().message(), path_ + ": has no tensor 'x'; it has 'a', 'b', 'c/d:e'");
  EXPECT_EQ(file->read_only_one().status().message(),
            path_ + ": has 3 tensors, expected one or FILE.safetensors:NAME; it has 'a', 'b', 'c/d:e'");
}

TEST_F(IoSafetensors, EmptyShapesAndFilesAreLegal) {
  const Result<SafetensorsFile> empty = open(one_tensor("F32", "[0,5]", "[0,0]", 0));
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(empty->read("q")->shape(), (Shape{0, 5}));
  const Result<SafetensorsFile> none = open(safetensors("{}", ""));
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_EQ(none->read_only_one().status().message(),
            path_ + ": has 0 tensors, expected one or FILE.safetensors:NAME; it has none");
  EXPECT_TRUE(open(safetensors(R"({"__metadata__":{}})", "")).ok());
  // Empty tensors between, before and after others.
  EXPECT_TRUE(open(safetensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                               R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                               R"("c":{"dtype":"F64","shape":[0],"data_offsets":[4,4]}})",
                               "1234"))
                  .ok());
}

TEST_F(IoSafetensors, ShapesThatLieAreRefused) {
  EXPECT_EQ(
      refusal(one_tensor("F32", "[4294967296,4294967296]", "[0,16]", 16)),
      "tensor 'q': shape [4294967296, 4294967296] at 32 bits an element takes more than 2^64 bits, expected less");
  EXPECT_EQ(refusal(one_tensor("F32", "[-1,-4]", "[0,16]", 16)),
            "tensor 'q': shape holds -1, expected integers from 0 to 2^63 - 1");
  EXPECT_EQ(refusal(one_tensor("F32", "[1e400]", "[0,16]", 16)),
            "tensor 'q': shape holds 1e400, expected integers from 0 to 2^63 - 1");
  EXPECT_EQ(refusal(one_tensor("F32", "[1.5]", "[0,16]", 16)),
            "tensor 'q': shape holds 1.5, expected integers from 0 to 2^63 - 1");
  for (const char* extent :
       {"9223372036854775808", "18446744073709551616", "4.0", "1e2", "null", "true", "\"4\"", "[4]", "{}"}) {
    const std::string message = refusal(one_tensor("F32", std::string("[") + extent + "]", "[0,16]", 16));
    EXPECT_EQ(message.find("tensor 'q': shape holds "), 0u) << message;
  }
  for (const char* extent : {"NaN", "Infinity", "0x4", "+4", "04", "", ","}) {
    const std::string message = refusal(one_tensor("F32", std::string("[1,") + extent + "]", "[0,16]", 16));
    EXPECT_EQ(message.find("header is no valid JSON at byte "), 0u) << message;
  }
  EXPECT_EQ(refusal(one_tensor("F32", "[3]", "[0,16]", 16)),
            "tensor 'q': data_offsets [0, 16] hold 16 bytes, expected 12 for F32 of shape [3]");
  EXPECT_EQ(refusal(one_tensor("F4", "[3]", "[0,2]", 2)),
            "tensor 'q': shape [3] at 4 bits an element does not fill whole bytes");
  EXPECT_EQ(refusal(one_tensor("F32", "4", "[0,16]", 16)), "tensor 'q': shape is 4, expected an array");
}

TEST_F(IoSafetensors, OffsetsThatLieAreRefused) {
  EXPECT_EQ(refusal(one_tensor("F32", "[4]", "[0,16]", 15)),
            "tensor 'q': data_offsets [0, 16] reach beyond the file, which has 15 bytes of data");
  EXPECT_EQ(refusal(one_tensor("F32", "[4]", "[0,16]", 17)), "17 bytes of data after the header, the tensors take 16");
  EXPECT_EQ(refusal(one_tensor("F32", "[4]", "[4,20]", 20)),
            "tensor 'q': data begin at 4 and leave a gap after the tensor before, expected 0");
  EXPECT_EQ(refusal(one_tensor("F32", "[4]", "[16,0]", 16)), "tensor 'q': data_offsets [16, 0], expected begin <= end");
  EXPECT_EQ(refusal(one_tensor("F32", "[4]", "[9223372036854775807,9223372036854775807]", 16)),
            "tensor 'q': data_offsets [9223372036854775807, 9223372036854775807] hold 0 bytes, expected 16 for F32 of "
            "shape [4]");
  EXPECT_EQ(refusal(one_tensor("F32", "[0]", "[9223372036854775807,9223372036854775807]", 0))
                .find("tensor 'q': data_offsets"),
            0u);
  for (const char* offsets :
       {"[]", "[0]", "[0,16,16]", "[-1,15]", "[0,1.6e1]", "[0,18446744073709551615]", "16", "{}"}) {
    const std::string message = refusal(one_tensor("F32", "[4]", offsets, 16));
    EXPECT_EQ(message.find("tensor 'q': data_offsets "), 0u) << message;
  }
  const auto two = [](const char* a, const char* b) {
    return safetensors(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
                           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                       "12345678");
  };
  EXPECT_TRUE(open(two("[4,8]", "[0,4]")).ok());
  EXPECT_EQ(refusal(two("[0,4]", "[2,6]")), "tensor 'b': data begin at 2 and overlap the tensor before, expected 4");
  EXPECT_EQ(refusal(two("[0,4]", "[0,4]")), "tensor 'b': data begin at 0 and overlap the tensor before, expected 4");
  EXPECT_EQ(refusal(two("[0,4]", "[5,9]")).find("tensor 'b': data_offsets [5, 9] reach beyond the file"), 0u);
}

TEST_F(IoSafetensors, HeadersThatAreNoHeaderAreRefused) {
  EXPECT_EQ(header_refusal("[]"), "header begins with '[', expected '{'");
  EXPECT_EQ(header_refusal(" {}"), "header begins with ' ', expected '{'");
  EXPECT_EQ(header_refusal(""), "header begins with '', expected '{'");
  EXPECT_EQ(header_refusal(R"({"q":NaN})"), "header is no valid JSON at byte 6, after '\"q\":N'");
  EXPECT_EQ(header_refusal(R"({"q":1})"), "header: q is 1, expected an object");
  EXPECT_EQ(header_refusal(R"({"q":{}})"), "tensor 'q': has no dtype");
  EXPECT_EQ(header_refusal(R"({"q":{"dtype":"F32","shape":[1]}})"), "tensor 'q': has no data_offsets");
  EXPECT_EQ(header_refusal(R"({"q":{"dtype":4}})"), "tensor 'q': dtype is 4, expected a string");
  EXPECT_EQ(header_refusal(R"({"q":{"shape":"4"}})"), "tensor 'q': shape is '4', expected an array");
  EXPECT_EQ(header_refusal(R"({"q":{"colour":"red"}})"),
            "tensor 'q': key 'colour', expected dtype, shape and data_offsets");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"n":1}})"), "__metadata__: n is 1, expected a string");
  EXPECT_EQ(header_refusal(R"({"__metadata__":[]})"), "header: __metadata__ is an array, expected an object");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"a":{"b":"c"}}})"), "__metadata__: a is an object, expected a string");
  EXPECT_EQ(header_refusal("{\"\xff\":{}}").find("header is no valid JSON at byte 3, after "), 0u);
  EXPECT_EQ(header_refusal("{\"\xed\xa0\x80\":{}}").find("header is no valid JSON at byte 4, after "), 0u);
  EXPECT_EQ(header_refusal(R"({"\ud800":{}})").find("header is no valid JSON at byte "), 0u);
  EXPECT_EQ(header_refusal(std::string("{}\0{}", 5)), "header is no valid JSON: byte 2 is NUL");
  for (const char* text :
       {"{", "{}{}", "{},", "{'q':{}}", "{\"q\"}", "{\"q\":}", "{\"q\":{},}", "{/**/}", "{\"q\":{}}]"}) {
    header_refusal(text);
  }
}

TEST_F(IoSafetensors, NamesThatOccurTwiceAreRefused) {
  const std::string tensor = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(header_refusal("{\"q\":" + tensor + ",\"q\":" + tensor + "}"), "header: key 'q' occurs twice");
  EXPECT_EQ(header_refusal("{\"q\":" + tensor + ",\"\\u0071\":" + tensor + "}"), "header: key 'q' occurs twice");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{},"__metadata__":{}})"), "header: key '__metadata__' occurs twice");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"a":"1","a":"2"}})"), "__metadata__: key 'a' occurs twice");
  EXPECT_EQ(header_refusal(R"({"q":{"shape":[1],"shape":[1]}})"), "tensor 'q': key 'shape' occurs twice");
}

TEST_F(IoSafetensors, DeepNestingIsRefused) {
  for (const char* open_bracket : {"[", "{\"a\":"}) {
    std::string nested;
    for (int i = 0; i < 1'000'000; ++i) nested += open_bracket;
    header_refusal("{\"q\":" + nested);
    header_refusal("{\"q\":{\"shape\":" + nested);
    header_refusal("{\"__metadata__\":{\"a\":" + nested);
  }
}

TEST_F(IoSafetensors, LengthsThatLieAreRefused) {
  EXPECT_EQ(refusal(""), "has 0 bytes, expected 8 that tell the length of the header");
  EXPECT_EQ(refusal("1234567"), "has 7 bytes, expected 8 that tell the length of the header");
  EXPECT_EQ(refusal(std::string(8, '\xff')), "header of 18446744073709551615 bytes from byte 8, the file has 8");
  EXPECT_EQ(refusal(std::string("\3\0\0\0\0\0\0\0{}", 10)), "header of 3 bytes from byte 8, the file has 10");
  // 100 000 001 bytes are inside the file, which is sparse.
  write_bytes(path_, std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10));
  ASSERT_EQ(::truncate(path_.c_str(), 200'000'000), 0);
  EXPECT_EQ(SafetensorsFile::open(path_).status().message(),
            path_ + ": header of 100000001 bytes, expected at most 100000000");
}

TEST_F(IoSafetensors, UnknownTypesAreListed) {
  const Result<SafetensorsFile> file = open(one_tensor("Q5_\\n", "[7]", "[0,3]", 3));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->entries()[0].dtype, "Q5_\n");
  EXPECT_EQ(file->read("q").status().message(),
            path_ + ": tensor 'q' has dtype 'Q5_\\x0a', expected F32, F64, F16 or BF16");
  for (const char* dtype : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"})
    EXPECT_TRUE(open(one_tensor(dtype, "[3]", "[0,3]", 3)).ok());
  for (const char* dtype : {"I64", "U64", "C64"}) EXPECT_TRUE(open(one_tensor(dtype, "[3]", "[0,24]", 24)).ok());
}

TEST_F(IoSafetensors, EveryPrefixIsRefused) {
  const std::string good = one_tensor("F32", "[2,3]", "[0,24]", 24);
  ASSERT_TRUE(open(good).ok());
  for (std::size_t n = 0; n < good.size(); ++n) refusal(good.substr(0, n));
  refusal(good + '\0');
}

TEST_F(IoSafetensors, EveryCorruptedByteIsReadOrRefused) {
  const std::string good = one_tensor("F32", "[2,3]", "[0,24]", 24);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      const Result<SafetensorsFile> file = open(bytes);
      if (!file.ok()) continue;
      ASSERT_EQ(file->entries().size(), 1u);
      const Result<Tensor> tensor = file->read(file->entries()[0].name);
      EXPECT_TRUE(!tensor.ok() || tensor->bytes() == 24u);
    }
  }
}

TEST_F(IoSafetensors, AnyTextForAHeaderIsReadOrRefused) {
  EXPECT_TRUE(rc::check("no header of pieces of headers crashes", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "{", "}", "[", "]", ":", ",", "\"q\"", "\"dtype\"", "\"F32\"", "\"shape\"", "\"data_offsets\"", "0", "4", "-1",
        "1e400", "\"__metadata__\"", "null", "\"", "\\u0000", "\xff", "{\"q\":{\"dtype\":\"F32\",\"shape\":["));
    std::string text = "{";
    for (const std::string& piece : pieces) text += piece;
    const Result<SafetensorsHeader> header = parse_safetensors_header(text, 4);
    RC_ASSERT(header.ok() || !header.status().message().empty());
  }));
}

TEST_F(IoSafetensors, ReadsBeyondFourGibibytes) {
  const std::uint64_t far = std::uint64_t{5} << 30;
  const std::string header = R"({"big":{"dtype":"U8","shape":[5368709120],"data_offsets":[0,5368709120]},)"
                             R"("tail":{"dtype":"F32","shape":[1],"data_offsets":[5368709120,5368709124]}})";
  write_bytes(path_, safetensors(header, ""));
  std::filesystem::resize_file(path_, 8 + header.size() + far + 4);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(8 + header.size() + far));
  const float value = 1.5f;
  file.write(reinterpret_cast<const char*>(&value), 4);
  file.close();
  const Result<SafetensorsFile> opened = SafetensorsFile::open(path_);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->read("tail")->values<float>()[0], 1.5f);
}

TEST_F(IoSafetensors, ReadsTheSampleFile) {
  const std::string path = SIATTN_SOURCE_DIR "/share/sample/smollm2-layer12.safetensors";
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Result<Tensor> query = file->read("query");
  ASSERT_TRUE(query.ok()) << query.status().message();
  EXPECT_EQ(query->dtype(), DType::bfloat16);
  EXPECT_EQ(query->shape(), (Shape{9, 512, 64}));
}

}  // namespace
}  // namespace siattn::io
