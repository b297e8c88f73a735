using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Reflection;

namespace Whimbrel;

/// <summary>Addresses and sockets as the text of upgrade packets. Stateless.</summary>
internal static class UpgradeNames
{
    internal const string Question = "whimbrel-upgrade 1 ";
    internal const string Socket = "socket ";
    internal const string End = "end";
    internal const string Refused = "refused ";
    internal const string Ready = "ready ";
    internal const string Released = "released";
    internal const string Owned = "owned";

    /// <summary>Name of this program, which is the same in its versions; empty if it has none.</summary>
    internal static string Program { get; } = Assembly.GetEntryAssembly()?.GetName().Name ?? "";

    /// <summary>Returns the first packet of a new process: its id and its program.</summary>
    internal static string PacketOfQuestion() =>
        string.Create(CultureInfo.InvariantCulture, $"{Question}{Environment.ProcessId} {Program}");

    /// <summary>Returns the name of the program in a question, or an empty text.</summary>
    internal static string ProgramOf(string question) =>
        question[Question.Length..].Split(' ', 2) is [_, var program] ? program : "";

    /// <summary>
    /// Returns the text of an address that is equal in two processes: paths are absolute, because their working
    /// directories may differ.
    /// </summary>
    internal static string Of(EndPoint endPoint)
    {
        EndPoint plain = (endPoint as InheritedSocket)?.LocalEndPoint ?? endPoint;
        string text = plain.ToString() ?? "";
        bool isPath = plain is UnixDomainSocketEndPoint && text.Length > 0 && text[0] is not ('@' or '\0');
        return isPath ? Path.GetFullPath(text) : text;
    }

    /// <summary>
    /// Returns the path at which this process binds a Unix socket before it renames it over another one.
    /// </summary>
    internal static string TemporaryOf(UnixDomainSocketEndPoint endPoint) =>
        string.Create(CultureInfo.InvariantCulture, $"{endPoint}.{Environment.ProcessId}");

    internal static string PacketOf(int group, OfferedSocket socket) => string.Create(CultureInfo.InvariantCulture,
        $"{Socket}{group} {(int)socket.Type} {socket.Given}");

    /// <summary>Reads a packet of <see cref="PacketOf"/>. Returns false if it is none.</summary>
    internal static bool TryRead(string packet, out int group, out SocketType type, out string given)
    {
        string[] parts = packet.Split(' ', 4);
        (group, type, given) = (0, SocketType.Unknown, "");
        if (parts.Length != 4 || parts[0] + " " != Socket || !TryNumber(parts[1], out group)
            || !TryNumber(parts[2], out int number) || number is not ((int)SocketType.Stream or (int)SocketType.Dgram))
            return false;
        (type, given) = ((SocketType)number, parts[3]);
        return true;
    }

    /// <summary>Reads the groups of a packet that begins with <see cref="Ready"/>. Null if it is none.</summary>
    internal static HashSet<int>? GroupsOf(string packet)
    {
        if (!packet.StartsWith(Ready, StringComparison.Ordinal)) return null;
        HashSet<int> groups = [];
        foreach (string part in packet[Ready.Length..].Split(',', StringSplitOptions.RemoveEmptyEntries))
        {
            if (!TryNumber(part, out int group)) return null;
            groups.Add(group);
        }

        return groups;
    }

    private static bool TryNumber(string text, out int number) =>
        int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out number);
}
