using System.Globalization;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// Descriptors that systemd passed to this process: numbers from 3, with names (sd_listen_fds(3)). Read once, because
/// the variables are removed so that child processes do not take them for theirs. Immutable; any thread.
/// </summary>
internal sealed class SystemdSockets
{
    private const int FirstDescriptor = 3;
    private const int MostDescriptors = 100_000;
    private static readonly Lazy<SystemdSockets> s_ofProcess = new(static () => new SystemdSockets(
        Take("LISTEN_PID"), Take("LISTEN_FDS"), Take("LISTEN_FDNAMES"), FirstDescriptor));

    private readonly List<InheritedSocket> _sockets = [];
    private readonly List<string> _others = [];
    private readonly string? _whyNone;

    /// <param name="process">Value of LISTEN_PID, or null.</param>
    /// <param name="count">Value of LISTEN_FDS, or null.</param>
    /// <param name="names">Value of LISTEN_FDNAMES, or null.</param>
    /// <param name="first">Number of the first descriptor.</param>
    internal SystemdSockets(string? process, string? count, string? names, int first)
    {
        if (process is null || count is null)
        {
            _whyNone = "LISTEN_FDS and LISTEN_PID are not set: start the program by a service with a socket unit";
            return;
        }

        if (process != Environment.ProcessId.ToString(CultureInfo.InvariantCulture))
        {
            _whyNone = $"LISTEN_PID is {process}, and this process is {Environment.ProcessId}: start the program "
                + "itself by the unit, or with exec in a script";
            return;
        }

        if (!int.TryParse(count, NumberStyles.None, CultureInfo.InvariantCulture, out int number)
            || number > MostDescriptors)
        {
            _whyNone = $"LISTEN_FDS = '{count}' is no number of descriptors";
            return;
        }

        if (number == 0) _whyNone = "LISTEN_FDS is 0: the socket unit has no socket";
        string[] named = names?.Split(':') ?? [];
        for (int i = 0; i < number; i++) Add(first + i, i < named.Length ? named[i] : "");
    }

    internal static SystemdSockets OfProcess => s_ofProcess.Value;

    internal IReadOnlyList<InheritedSocket> Sockets => _sockets;

    /// <summary>
    /// Returns the sockets of a name, or all of them for an empty name, of one type. If there is none,
    /// <paramref name="mistake"/> has the reason.
    /// </summary>
    internal List<InheritedSocket> Find(string name, SocketType type, out string? mistake)
    {
        mistake = null;
        List<InheritedSocket> found = _sockets.FindAll(s => s.SocketType == type
            && (name.Length == 0 || s.Name == name));
        if (found.Count > 0) return found;
        string kind = type == SocketType.Stream ? "listening" : "datagram";
        mistake = _whyNone ?? $"systemd passed no {kind} socket{(name.Length > 0 ? $" named '{name}'" : "")}, but: "
            + string.Join(", ", _sockets.Select(static s => $"{s.SocketType} {s}").Concat(_others));
        return found;
    }

    private void Add(int descriptor, string name)
    {
        Syscall.CloseOnExec(descriptor);
        if (InheritedSocket.Find(descriptor, name, out string? mistake) is { } socket) _sockets.Add(socket);
        else _others.Add(mistake!);
    }

    private static string? Take(string variable)
    {
        string? value = Environment.GetEnvironmentVariable(variable);
        Environment.SetEnvironmentVariable(variable, null);
        return value;
    }
}
