#include "agent/memory.hpp"

#include <doctest/doctest.h>

#include "core/fault/classify.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::agent;

TEST_CASE("what was found survives a restart of the agent") {
  TestFolder folder;
  fault::Ledger ledger;
  ledger.observe(*fault::classify_text("NVRM: Xid (PCI:0000:0a:00): 79, x"), TimePoint(Duration(1'700'000'000'123)),
                 "the line");
  CHECK(load_memory(folder.path).error().kind == ErrorKind::not_found);
  REQUIRE(save_memory(folder.file("deeper"), {"boot-1", 77, ledger.entries(), 3, {{4, "GPU-4", "0000:0a:00"}}}));
  const auto back = load_memory(folder.file("deeper"));
  REQUIRE(back);
  CHECK(back->boot_id == "boot-1");
  CHECK(back->last_sequence == 77u);
  CHECK(back->dropped == 3);
  REQUIRE(back->gpus.size() == 1);
  CHECK(back->gpus[0].index == 4);
  CHECK(back->gpus[0].pci == "0000:0a:00");
  REQUIRE(back->entries.size() == 1);
  const auto& entry = back->entries[0];
  CHECK(entry.id == ledger.entries()[0].id);
  CHECK(entry.first_seen == TimePoint(Duration(1'700'000'000'123)));
  CHECK(entry.finding.repair_class == fault::RepairClass::replace_node);
  CHECK(entry.finding.unambiguous);
  CHECK(entry.evidence == "the line");
}

TEST_CASE("a torn or foreign file is refused, a sequence of zero is one") {
  CHECK_FALSE(decode_memory("{\"bootId\":\"b\",\"entr").has_value());
  CHECK_FALSE(decode_memory("{}").has_value());
  CHECK_FALSE(decode_memory("").has_value());
  const auto none = decode_memory(R"({"bootId":"b","entries":[{"component":""},7]})");
  REQUIRE(none);
  CHECK(none->entries.empty());
  CHECK_FALSE(none->last_sequence.has_value());
  CHECK(decode_memory(R"({"bootId":"b","lastSequence":0})")->last_sequence == 0u);
}

TEST_CASE("a folder that cannot be written is told in a sentence") {
  TestFolder folder;
  folder.write("file", "x");
  const auto saved = save_memory(folder.file("file/below"), {"b", 1, {}, 0, {}});
  REQUIRE_FALSE(saved.has_value());
  CHECK(saved.error().message.find("cannot write") != std::string::npos);
}

TEST_CASE("incidents and what has come too often survive a restart of the agent") {
  fault::Ledger ledger;
  const auto at = [](int seconds) { return TimePoint(Duration(1'700'000'000'000) + std::chrono::seconds(seconds)); };
  const auto see = [&](std::string_view line, int seconds) {
    ledger.observe(*fault::classify_text(line), at(seconds), line);
  };
  see("NVRM: Xid (PCI:0000:0a:00): 48, x", 0);
  see("NVRM: Xid (PCI:0000:0a:00): 45, pid=1, Ch 00000001 caused by previous Xid 48", 20);
  for (int job = 0; job < 3; ++job) see("NVRM: Xid (PCI:0000:0b:00): 31, x", 600 * job);
  ledger.settle(at(1'300));
  const auto back = decode_memory(encode_memory({"boot-1", 7, ledger.entries(), 0, {}, ledger.history()}));
  REQUIRE(back);
  fault::Ledger again;
  again.restore(back->entries, back->dropped, back->history);
  REQUIRE(again.entries().size() == ledger.entries().size());
  again.settle(at(1'301));
  for (size_t i = 0; i < ledger.entries().size(); ++i) {
    const auto& was = ledger.entries()[i];
    const auto& is = again.entries()[i];
    CHECK(is.incident == was.incident);
    CHECK(is.incident_since == was.incident_since);
    CHECK(is.role == was.role);
    CHECK(is.raised_to == was.raised_to);
    CHECK(is.began == was.began);
    CHECK(is.finding.caused_by == was.finding.caused_by);
  }
  REQUIRE(ledger.entries().back().raised_to);
}

TEST_CASE("a memory of an older agent is good, too") {
  const auto back = decode_memory(R"({"bootId":"b","entries":[{"component":"gpu-xid","code":"79","device":"0000:0a:00",
    "severity":"fatal","class":"replace-node","first":"2026-11-30T05:00:00Z","last":"2026-11-30T05:00:01Z"}],
    "repeats":[{"id":"x","last":"2026-11-30T05:00:00Z","counts":[1,2]},{"id":"y","counts":["a"]},3]})");
  REQUIRE(back);
  REQUIRE(back->entries.size() == 1);
  CHECK(back->entries[0].began == back->entries[0].first_seen);
  CHECK(back->entries[0].incident.empty());
  CHECK(back->history.empty());
}
