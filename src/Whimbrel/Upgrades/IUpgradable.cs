using System.Net;
using System.Net.Sockets;

namespace Whimbrel;

/// <summary>
/// Owner of sockets that an upgrade can give to a new process: a server or a datagram socket. Threads of the upgrade.
/// </summary>
internal interface IUpgradable
{
    /// <summary>
    /// Adds duplicates of its open sockets, which the caller owns. From now on a stop leaves them to the new process.
    /// Adds nothing if it is not started, or stops.
    /// </summary>
    void Offer(List<OfferedSocket> offered);

    /// <summary>
    /// Stops accepting or receiving. Sockets in <paramref name="taken"/> stay as they are; others are drained.
    /// </summary>
    /// <param name="taken"><see cref="OfferedSocket.Key"/> of the sockets that the new process has.</param>
    Task ReleaseAsync(IReadOnlySet<string> taken);

    /// <summary>
    /// Called when no other process has its sockets any more, so that a stop drains: in the new process at the end, in
    /// the old one if the new one has failed.
    /// </summary>
    void Own();

    /// <summary>Reports a diagnostic event.</summary>
    void Report(DiagnosticEvent notice);
}

/// <summary>A socket for the new process.</summary>
/// <param name="Descriptor">Duplicate of the descriptor.</param>
/// <param name="Type">Stream or Dgram.</param>
/// <param name="Given">Address that the first process was given (<see cref="UpgradeNames.Of"/>).</param>
/// <param name="Bound">Address to which it is bound.</param>
internal readonly record struct OfferedSocket(int Descriptor, SocketType Type, string Given, EndPoint Bound)
{
    /// <summary>Type and bound address. Sockets of one key are a group: a process takes all of them or none.</summary>
    internal string Key => KeyOf(Type, Bound);

    internal static string KeyOf(SocketType type, EndPoint bound) => $"{type} {UpgradeNames.Of(bound)}";
}
