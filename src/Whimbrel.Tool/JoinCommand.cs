using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel join</c>: prints the datagrams of a group on stdout, one per line, and the totals at the end;
/// everything else goes to stderr.</summary>
internal static class JoinCommand
{
    private const int SocketBufferBytes = 1024 * 1024;

    internal static Task<int> RunAsync(JoinSettings settings, DatagramSettings common) =>
        DatagramRun.GuardAsync(common, 1, async (engine, stop, tell) =>
        {
            LinePrinter lines = new();
            GroupMember member = new(settings, lines, tell);
            await using (lines)
            {
                MulticastGroup[] groups = settings.Interfaces.Length == 0
                    ? [new MulticastGroup(settings.Group.Address, null, settings.Source)]
                    : [.. settings.Interfaces.Distinct()
                        .Select(i => new MulticastGroup(settings.Group.Address, i, settings.Source))];
                await using DatagramSocket socket = new(
                    new DatagramOptions
                    {
                        Engine = engine,
                        EndPoint = Place(settings.Group),
                        ReuseAddress = true,
                        Groups = groups,
                        ReceiveBufferBytes = SocketBufferBytes
                    },
                    () => member);
                await socket.StartAsync();
                await DatagramRun.UntilStopAsync(socket, common, stop, member.GotAll, lines.NobodyReads);
                DatagramCounters c = socket.ReadCounters();
                // With --count, further datagrams may have arrived before the socket was closed; they are not counted.
                lines.Add($"total: {member.Count} datagrams from {member.Sources} sources, {member.Missing} missing by "
                    + $"their numbers, {c.Overflowed} dropped by the system, {lines.Unprinted} not printed");
            }

            return ExitCode.Done;
        });

    /// <summary>
    /// Returns the address to bind: the group itself, so that no other datagrams to the port are received. Windows
    /// cannot bind to a group.
    /// </summary>
    private static IPEndPoint Place(IPEndPoint group)
    {
        if (!OperatingSystem.IsWindows()) return group;
        return new IPEndPoint(group.AddressFamily == AddressFamily.InterNetwork ? IPAddress.Any : IPAddress.IPv6Any,
            group.Port);
    }
}
