// A collective pattern under SimGrid's s4u, one actor a rank: what `castell bench sim` puts beside castell.
//
//   g++ -std=c++17 -O3 simgrid.cpp -lsimgrid -o simgrid && ./simgrid PATTERN RANKS BYTES
//
// PATTERN is bcast:binomial, barrier:dissemination or allreduce:recursive-doubling (powers of two). Prints one line of
// JSON: wall time of the simulation in ns (platform and actors not counted), messages, and the memory that it added.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

static long high_water_kib()
{
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0)
      return std::stol(line.substr(6));
  return 0;
}

struct Exchange {
  int64_t to;
  int64_t from;
};

// What a rank does in a round: whom it sends to and hears from, -1 for nobody.
static Exchange exchange(const std::string& pattern, int64_t rank, int64_t ranks, int64_t distance)
{
  if (pattern == "barrier:dissemination")
    return {(rank + distance) % ranks, (rank + ranks - distance) % ranks};
  if (pattern == "allreduce:recursive-doubling")
    return {rank ^ distance, rank ^ distance};
  if (rank < distance)
    return {rank + distance < ranks ? rank + distance : -1, -1};
  return {-1, rank < 2 * distance ? rank - distance : -1};
}

static void run_rank(const std::string& pattern, int64_t rank, int64_t ranks, int64_t bytes, uint64_t* messages)
{
  int token  = 0;
  int round  = 0;
  auto box   = [&](int64_t receiver) {
    return sg4::Mailbox::by_name(std::to_string(receiver) + "." + std::to_string(round));
  };
  for (int64_t distance = 1; distance < ranks; distance *= 2, round++) {
    const Exchange now = exchange(pattern, rank, ranks, distance);
    sg4::CommPtr sent;
    if (now.to >= 0) {
      sent = box(now.to)->put_async(&token, bytes);
      ++*messages;
    }
    if (now.from >= 0)
      box(rank)->get<int>();
    if (sent)
      sent->wait();
  }
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  if (argc != 4) {
    fprintf(stderr, "usage: %s PATTERN RANKS BYTES\n", argv[0]);
    return 2;
  }
  const std::string pattern = argv[1];
  const int64_t ranks = std::stoll(argv[2]), bytes = std::stoll(argv[3]);
  const long before   = high_water_kib();

  auto* zone     = sg4::create_star_zone("cluster");
  uint64_t messages = 0;
  std::vector<sg4::Host*> hosts;
  for (int64_t rank = 0; rank < ranks; rank++) {
    auto* host = zone->create_host("h" + std::to_string(rank), 1e9)->seal();
    auto* link = zone->create_split_duplex_link("l" + std::to_string(rank), 1.25e8)->set_latency(2.5e-6)->seal();
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {{link, sg4::LinkInRoute::Direction::UP}}, true);
    hosts.push_back(host);
  }
  zone->seal();
  for (int64_t rank = 0; rank < ranks; rank++)
    sg4::Actor::create("r" + std::to_string(rank), hosts[rank],
                       [=, &messages] { run_rank(pattern, rank, ranks, bytes, &messages); });

  const auto begin = std::chrono::steady_clock::now();
  engine.run();
  const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - begin;
  printf("{\"run_ns\":[%lld],\"load_ns\":0,\"events\":%llu,\"makespan_ps\":%.0f,\"memory_bytes\":%ld}\n",
         static_cast<long long>(wall.count()), static_cast<unsigned long long>(3 * messages),
         sg4::Engine::get_clock() * 1e12, (high_water_kib() - before) * 1024);
  return 0;
}
