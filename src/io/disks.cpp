#include "io/disks.hpp"

#include "io/pci_state.hpp"

namespace homeostat::io {

namespace {

constexpr size_t max_disks = 256;
constexpr size_t longest_mounts = 1u << 20, longest_mdstat = 1u << 16;

std::string trouble_of(std::string_view file, SysFault why) {
  std::string text(file);
  text += " is ";
  text += to_string(why);
  return text;
}

}  // namespace

void DiskReader::read_nvme(fault::DiskReading& reading) {
  for (auto& [name, known] : nvme_) known.seen = false;
  if (const auto all = sys_.open("class/nvme"))
    for (const auto& name : sys_.list(all)) {
      if (!nvme_.contains(name)) {
        if (nvme_.size() >= max_disks) continue;
        nvme_[name].pci = last_pci_address_in(sys_.link(all, name.c_str()));
      }
      auto& known = nvme_[name];
      known.seen = true;
      const auto folder = sys_.open(all, name.c_str());
      fault::NvmeReading disk;
      disk.name = name;
      disk.pci = known.pci;
      const auto transport = sys_.read(folder, "transport");
      known.fabric = disk.fabric = transport && transport.text != "pcie";
      const auto state = sys_.read(folder, "state");
      disk.state = state.text;
      if (!state) disk.trouble = trouble_of("its file state", state.fault);
      if (disk.state.size() > 32) disk.trouble = trouble_of("its file state", SysFault::garbled);
      reading.nvme.push_back(std::move(disk));
    }
  for (auto at = nvme_.begin(); at != nvme_.end();) {
    auto& [name, known] = *at;
    if (known.seen) {
      ++at;
      continue;
    }
    const auto pci = pci_state(sys_, known.pci);
    fault::NvmeReading disk;
    disk.name = name;
    disk.pci = known.pci;
    disk.listed = false;
    disk.fabric = known.fabric;
    disk.moved = pci.there && pci.bound;
    const bool forget = disk.moved || known.fabric;
    reading.nvme.push_back(std::move(disk));
    at = forget ? nvme_.erase(at) : std::next(at);
  }
}

void DiskReader::read_blocks(fault::DiskReading& reading) {
  const auto all = sys_.open("block");
  if (!all) return;
  for (const auto& name : sys_.list(all)) {
    const bool disk =
        name.starts_with("nvme") || name.starts_with("sd") || name.starts_with("vd") || name.starts_with("xvd");
    if (!disk || reading.blocks.size() >= max_disks) continue;
    const auto folder = sys_.open(all, name.c_str());
    const auto text = sys_.read(folder, "stat");
    if (text.fault == SysFault::missing) continue;  // on its way out
    const auto stat = text ? fault::parse_block_stat(name, text.text) : std::nullopt;
    if (stat)
      reading.blocks.push_back(*stat);
    else
      reading.troubles.push_back(trouble_of("block/" + name + "/stat", text ? SysFault::garbled : text.fault));
  }
}

void DiskReader::read_mounts(fault::DiskReading& reading) {
  const auto root = proc_.open("");
  if (!root) return reading.troubles.push_back(trouble_of(proc_.root(), SysFault::missing));
  // Those of the first process are the host's; a pod sees others under its own name.
  const auto* file = proc_.exists(root, "1/mounts") ? "1/mounts" : "mounts";
  const auto text = proc_.read_long(root, file, longest_mounts);
  if (text)
    reading.mounts = fault::parse_mounts(text.text);
  else
    reading.troubles.push_back(trouble_of(file, text.fault));
  const auto raids = proc_.read_long(root, "mdstat", longest_mdstat);
  if (raids)
    reading.degraded_raids = fault::degraded_raids_of(raids.text);
  else if (raids.fault != SysFault::missing)
    reading.troubles.push_back(trouble_of("mdstat", raids.fault));
}

void DiskReader::read_filesystems(fault::DiskReading& reading) {
  const auto all = sys_.open("fs/ext4");
  if (!all) return;
  for (const auto& name : sys_.list(all)) {
    if (reading.filesystems.size() >= max_disks) break;
    const auto folder = sys_.open(all, name.c_str());
    SysFault why = SysFault::none;
    const auto errors = sys_.number(folder, "errors_count", &why);
    if (errors)
      reading.filesystems.push_back({name, *errors});
    else if (why != SysFault::missing)  // "features" is no filesystem
      reading.troubles.push_back(trouble_of("fs/ext4/" + name + "/errors_count", why));
  }
}

fault::DiskReading DiskReader::read() {
  fault::DiskReading reading;
  read_nvme(reading);
  read_blocks(reading);
  read_mounts(reading);
  read_filesystems(reading);
  return reading;
}

}  // namespace homeostat::io
