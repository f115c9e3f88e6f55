// The pure parts of the runtime, step by step with a clock of our own.
#include <doctest/doctest.h>

#include <boost/json.hpp>

#include "io/json.hpp"
#include "kube/conditions.hpp"
#include "kube/connect.hpp"
#include "kube/controller.hpp"
#include "kube/lease_elector.hpp"
#include "kube/meta.hpp"
#include "kube/reflector.hpp"
#include "kube/store.hpp"
#include "kube/work_queue.hpp"

using namespace homeostat;
using namespace homeostat::kube;
namespace json = boost::json;

namespace {

struct Zero final : io::Random {
  std::uint64_t next() override { return 0; }
};

Duration ms(long value) { return Duration{value}; }
const ObjectKey a{"ns", "a"}, b{"ns", "b"};

ObjectPtr object(const char* name, const char* uid, const char* version) {
  return std::make_shared<const Object>(
      Object{{"metadata", {{"name", name}, {"uid", uid}, {"resourceVersion", version}}}});
}

}  // namespace

// add a, add a, take -> a; add a while processing; take -> nothing; done -> a again.
TEST_CASE("work queue: a key waits once, is in one worker at a time, and an add in between is not lost") {
  WorkQueueCore queue;
  queue.add(a);
  queue.add(a);
  queue.add(b);
  CHECK(queue.take(ms(0)) == a);
  queue.add(a);
  CHECK(queue.take(ms(0)) == b);
  CHECK_FALSE(queue.take(ms(0)).has_value());
  queue.done(a);
  CHECK(queue.take(ms(0)) == a);
  queue.done(a);
  queue.done(b);
  CHECK_FALSE(queue.take(ms(0)).has_value());
}

TEST_CASE("work queue: failures wait 5 ms, doubled, never beyond 60 s; success starts over") {
  WorkQueueCore queue;
  Zero random;
  Duration now{0};
  std::vector<long> waits;
  for (int i = 0; i < 16; ++i) {
    queue.add_failed(a, now, random);
    waits.push_back((*queue.next_due() - now).count());
    now = *queue.next_due();
    REQUIRE(queue.take(now) == a);
    queue.done(a);
  }
  CHECK(waits[0] == 5);
  CHECK(waits[1] == 10);
  CHECK(waits[5] == 160);
  CHECK(waits[15] == 60'000);
  queue.forget(a);
  queue.add_failed(a, now, random);
  CHECK(*queue.next_due() - now == ms(5));
}

TEST_CASE("work queue: many failing keys together are slowed to ten a second") {
  WorkQueueCore queue;
  Zero random;
  for (int i = 0; i < 150; ++i) queue.add_failed({"ns", std::to_string(i)}, ms(0), random);
  int due = 0;
  while (auto key = queue.take(ms(5))) ++due;
  CHECK(due == 100);
  while (auto key = queue.take(ms(5000))) ++due;
  CHECK(due == 150);
}

TEST_CASE("work queue: of two dates the earlier wins, and an add makes it due now") {
  WorkQueueCore queue;
  queue.add_after(a, ms(500), ms(0));
  queue.add_after(a, ms(100), ms(0));
  queue.add_after(a, ms(900), ms(0));
  CHECK_FALSE(queue.take(ms(99)).has_value());
  CHECK(queue.next_due() == ms(100));
  queue.add(a);
  CHECK(queue.take(ms(1)) == a);
  queue.done(a);
  CHECK_FALSE(queue.next_due().has_value());
}

// empty -list(0)-> watching -end-> watching at the last version seen -410-> wait -> list(last) -410-> list("") ->
// watching
TEST_CASE("reflector: where it lists and where it resumes") {
  Zero random;
  Reflector reflector(random);
  auto action = reflector.next(ms(0));
  CHECK(action.what == Reflector::Do::list);
  CHECK(action.resource_version == "0");
  reflector.listed("10", ms(0));
  action = reflector.next(ms(0));
  CHECK(action.what == Reflector::Do::watch);
  CHECK(action.resource_version == "10");
  CHECK(action.timeout >= std::chrono::seconds(300));
  CHECK(action.timeout <= std::chrono::seconds(600));
  reflector.seen("15");
  reflector.watch_ended(ms(300'000));
  action = reflector.next(ms(300'000));
  CHECK(action.what == Reflector::Do::watch);
  CHECK(action.resource_version == "15");
  reflector.watch_failed({ErrorKind::gone, "", {}}, ms(300'001));
  CHECK(reflector.next(ms(300'001)).what == Reflector::Do::wait);
  action = reflector.next(ms(301'000));
  CHECK(action.what == Reflector::Do::list);
  CHECK(action.resource_version == "15");
  reflector.list_failed({ErrorKind::gone, "", {}}, ms(301'000));
  action = reflector.next(ms(301'000));
  CHECK(action.what == Reflector::Do::list);
  CHECK(action.resource_version == "");
  reflector.listed("40", ms(301'000));
  CHECK(reflector.next(ms(301'000)).resource_version == "40");
}

TEST_CASE(
    "reflector: waits 0.8 s, doubled to 30 s, obeys the server's own wait, starts over after two healthy minutes") {
  Zero random;
  Reflector reflector(random);
  std::vector<long> waits;
  for (int i = 0; i < 8; ++i) {
    CHECK(reflector.next(ms(0)).what == Reflector::Do::list);
    reflector.list_failed({ErrorKind::unreachable, "", {}}, ms(0));
    waits.push_back(reflector.next(ms(0)).delay.count());
  }
  CHECK(waits == std::vector<long>{800, 1600, 3200, 6400, 12'800, 25'600, 30'000, 30'000});
  REQUIRE(reflector.next(ms(0)).what == Reflector::Do::list);
  reflector.listed("1", ms(0));
  reflector.next(ms(0));
  reflector.watch_failed({ErrorKind::unavailable, "", {}}, ms(1000));
  CHECK(reflector.next(ms(1000)).delay == ms(30'000));  // one second of health is none
  reflector.next(ms(31'000));
  reflector.watch_failed({ErrorKind::unavailable, "", {}}, ms(31'000 + 120'000));
  CHECK(reflector.next(ms(151'000)).delay == ms(800));
  reflector.next(ms(152'000));
  reflector.watch_failed({ErrorKind::throttled, "", Duration{20'000}}, ms(152'000));
  CHECK(reflector.next(ms(152'000)).delay == ms(20'000));
}

TEST_CASE("reflector: watches that end at once do not spin") {
  Zero random;
  Reflector reflector(random);
  reflector.next(ms(0));
  reflector.listed("1", ms(0));
  reflector.next(ms(0));
  reflector.watch_ended(ms(5));
  CHECK(reflector.next(ms(5)).what == Reflector::Do::wait);
}

TEST_CASE("store: a new content is compared with the old one by uid and version") {
  Store store;
  for (const auto& entry :
       {object("same", "1", "1"), object("newer", "2", "2"), object("lost", "3", "3"), object("reborn", "4", "4")})
    store.put(entry);
  const auto changes = store.replace_all(
      {object("same", "1", "1"), object("newer", "2", "9"), object("reborn", "5", "6"), object("fresh", "7", "7")});
  std::string told;
  for (const auto& change : changes) told += change.key.name + (change.old ? change.now ? "~ " : "- " : "+ ");
  CHECK(told == "lost- reborn- fresh+ newer~ reborn+ ");
  CHECK(store.size() == 4);
  CHECK(store.get({"", "lost"}) == nullptr);
}

TEST_CASE("conditions: the transition time moves with the status only") {
  json::array conditions;
  const TimePoint first{std::chrono::seconds(100)}, later{std::chrono::seconds(200)};
  CHECK(set_condition(conditions, {"Ready", "False", "Starting", "not yet", 1}, first));
  CHECK_FALSE(set_condition(conditions, {"Ready", "False", "Starting", "not yet", 1}, later));
  CHECK(set_condition(conditions, {"Ready", "False", "Starting", "still not", 2}, later));
  CHECK(io::string_at(conditions[0], {"lastTransitionTime"}) == "1970-01-01T00:01:40Z");
  CHECK(set_condition(conditions, {"Ready", "True", "Up", "", 2}, later));
  CHECK(io::string_at(conditions[0], {"lastTransitionTime"}) == "1970-01-01T00:03:20Z");
  CHECK(io::int_at(conditions[0], {"observedGeneration"}) == 2);
  CHECK(conditions.size() == 1);
}

TEST_CASE("meta: accessors, times and hashes") {
  const TimePoint time{std::chrono::milliseconds(1'796'017'774'123)};
  CHECK(meta_time(time).size() == 20);
  CHECK(micro_time(time).ends_with(".123000Z"));
  CHECK(short_hash("") == "cbf29ce484222325");  // FNV-1a's offset basis
  CHECK(short_hash("a") == "af63dc4c8601ec8c");
  CHECK(name_of({}) == "");
  CHECK(remove_finalizer_patch({}, "x").empty());
}

TEST_CASE("the token bucket lets a burst through and then spaces calls") {
  RateLimiter limiter(20, 2);
  CHECK(limiter.reserve(ms(1000)) == ms(0));
  CHECK(limiter.reserve(ms(1000)) == ms(0));
  CHECK(limiter.reserve(ms(1000)) == ms(50));
  CHECK(limiter.reserve(ms(1000)) == ms(100));
  CHECK(limiter.reserve(ms(2000)) == ms(0));
}

// A rival's lease, whatever its timestamps say: taken only after it has not changed for its whole duration, on our
// clock.
TEST_CASE("election: decides by observed change and the local clock") {
  using Do = ElectionCore::Do;
  ElectionCore core({"ns", "name", "me", ms(15'000), ms(10'000), ms(2'000)});
  CHECK(core.decide({}, ms(0)) == Do::create);
  const auto rival = [](const char* version) { return ElectionCore::Observed{true, "rival", version, ms(15'000)}; };
  CHECK(core.decide(rival("1"), ms(1'000)) == Do::wait);
  CHECK(core.decide(rival("1"), ms(15'000)) == Do::wait);
  CHECK(core.decide(rival("2"), ms(15'500)) == Do::wait);  // it renewed
  CHECK(core.decide(rival("2"), ms(30'499)) == Do::wait);
  CHECK(core.decide(rival("2"), ms(30'500)) == Do::update);
  core.written(ms(30'500));
  CHECK(core.leading());
  CHECK(core.decide({true, "me", "3", ms(15'000)}, ms(32'500)) == Do::update);
  core.written(ms(32'500));
  CHECK(core.failed(ms(42'499)) == Do::wait);
  CHECK(core.failed(ms(42'500)) == Do::lost);  // before the lease itself runs out
  ElectionCore robbed({"ns", "name", "me", ms(15'000), ms(10'000), ms(2'000)});
  robbed.written(ms(0));
  CHECK(robbed.decide(rival("9"), ms(1)) == Do::lost);
  ElectionCore next({"ns", "name", "me", ms(15'000), ms(10'000), ms(2'000)});
  CHECK(next.decide({true, "", "5", ms(1'000)}, ms(0)) == Do::update);  // released
}

namespace {

struct StillClock final : io::Clock {
  TimePoint now() const override { return {}; }
  Duration monotonic() const override { return at; }
  void sleep(Duration, std::stop_token) override {}
  Duration at{1'000};
};

struct Refused final : Reconciler {
  Result<ReconcileResult> reconcile(const ObjectKey&, std::stop_token) override {
    ++calls;
    return fail(ErrorKind::invalid, "an admission policy refuses the write");
  }
  int calls = 0;
};

}  // namespace

//  refused | nothing for 10 s | refused once more ...: what refused may be gone, and no event would tell
TEST_CASE("a controller comes back, slowly, to what was refused") {
  StillClock clock;
  Zero random;
  Refused reconciler;
  Controller controller("test", reconciler, clock, random);
  controller.enqueue(a);
  CHECK(controller.run_one({}));
  CHECK_FALSE(controller.run_one({}));
  REQUIRE(controller.next_due());
  CHECK(*controller.next_due() == ms(11'000));
  clock.at = ms(11'000);
  CHECK(controller.run_one({}));
  CHECK(reconciler.calls == 2);
}
