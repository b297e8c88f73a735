using System.Globalization;

namespace Whimbrel.Tool.Doctor;

/// <summary>Checks settings of the network stack in the network namespace of the process.</summary>
internal static class NetworkChecks
{
    private const string BacklogPath = "/proc/sys/net/core/somaxconn";
    private const string PortsPath = "/proc/sys/net/ipv4/ip_local_port_range";
    private const string ReusePath = "/proc/sys/net/ipv4/tcp_tw_reuse";
    private const string BusyPollPath = "/proc/sys/net/core/busy_poll";
    private const string BusyReadPath = "/proc/sys/net/core/busy_read";
    private const int UsualPorts = 60999 - 32768 + 1;

    /// <summary>Checks the largest backlog of a listener.</summary>
    internal static Finding Backlog(SystemTree system)
    {
        if (!TryRead(system, "somaxconn", BacklogPath, 1, out long[] values, out Finding trouble)) return trouble;
        int backlog = new ServerOptions().Socket.Backlog;
        string text = $"{values[0]}; a server requests a backlog of {backlog}";
        return values[0] >= backlog
            ? Finding.Ok("somaxconn", text)
            : Finding.Advice("somaxconn", $"{text}, and gets this one, so that bursts of connects are dropped earlier",
                $"sysctl -w net.core.somaxconn={backlog}");
    }

    /// <summary>Checks the number of connections between one source address and one peer address.</summary>
    internal static Finding Ports(SystemTree system)
    {
        if (!TryRead(system, "port range", PortsPath, 2, out long[] values, out Finding trouble)) return trouble;
        if (values[0] > values[1] || values[1] > ushort.MaxValue)
            return Finding.NotUnderstood("port range", PortsPath, $"{values[0]} {values[1]}");
        long count = values[1] - values[0] + 1;
        string text = $"{values[0]} to {values[1]}: {count} connections to one end point are possible";
        return count >= UsualPorts
            ? Finding.Ok("port range", text)
            : Finding.Advice("port range", text, "sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"");
    }

    internal static Finding TimeWaitReuse(SystemTree system)
    {
        if (!TryRead(system, "time_wait reuse", ReusePath, 1, out long[] values, out Finding trouble)) return trouble;
        return values[0] switch
        {
            0 => Finding.Advice("time_wait reuse",
                "0: a port whose client closed first cannot be reused for a minute, on loopback too",
                "sysctl -w net.ipv4.tcp_tw_reuse=2"),
            1 => Finding.Ok("time_wait reuse", "1: connects reuse ports after a second in TIME_WAIT"),
            2 => Finding.Ok("time_wait reuse",
                "2: on loopback only; 1 helps processes that connect to one remote peer repeatedly"),
            _ => Finding.NotUnderstood("time_wait reuse", ReusePath, values[0].ToString(CultureInfo.InvariantCulture)),
        };
    }

    internal static Finding BusyPoll(SystemTree system)
    {
        if (!TryRead(system, "busy-poll", BusyPollPath, 1, out long[] poll, out Finding trouble)) return trouble;
        if (!TryRead(system, "busy-poll", BusyReadPath, 1, out long[] read, out trouble)) return trouble;
        return poll[0] == 0 && read[0] == 0
            ? Finding.Ok("busy-poll", "off: a waiting loop sleeps; EngineOptions.Idle can make it spin")
            : Finding.Advice("busy-poll", $"a wait spins {poll[0]} microseconds and a read "
                + $"{read[0]} on the network card before it sleeps: less latency for much CPU",
                "sysctl -w net.core.busy_poll=0 net.core.busy_read=0, unless this is intended");
    }

    /// <summary>Parses exactly this number of non-negative integers.</summary>
    private static bool TryRead(SystemTree system, string name, string path, int count, out long[] values,
        out Finding trouble)
    {
        values = new long[count];
        trouble = default;
        if (system.Read(path) is not { } text)
        {
            trouble = Finding.Skipped(name, $"{path} is not there");
            return false;
        }

        string[] words = text.Split([' ', '\t', '\n'], StringSplitOptions.RemoveEmptyEntries);
        bool isRight = words.Length == count;
        for (int i = 0; i < count && isRight; i++)
            isRight = long.TryParse(words[i], NumberStyles.None, CultureInfo.InvariantCulture, out values[i]);
        if (!isRight) trouble = Finding.NotUnderstood(name, path, text);
        return isRight;
    }
}
