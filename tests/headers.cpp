// SPDX-License-Identifier: Apache-2.0
// Does nothing: this program exists for its precompiled header, which the tests share.
int main() {}
