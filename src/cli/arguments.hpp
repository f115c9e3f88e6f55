// The command line of `homeostat`: what may be said, its help, and who does it. The only user of CLI11 here.
#pragma once

namespace homeostat::cli {

int run_command_line(int argc, char** argv);

}  // namespace homeostat::cli
