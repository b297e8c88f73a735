using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy.Rules;

// The permitted dependencies inside the core. A type may use types of its own layer and of lower layers, never of upper
// ones; engines do not use each other. Judged by symbols, not by spelling. Enums and readonly structs may be used by
// any layer.
internal static class Layers
{
    private const string Core = "src/Whimbrel/";
    private static readonly string[] _engines = ["Epoll", "Uring", "Portable"];

    // Folders of public types and of parts of them: the layer follows from the name of the type.
    private static readonly string[] _mixed = ["Sessions", "Servers", "Clients", "Groups", "Options"];

    private static readonly string[] _loops = ["Loop", "LoopTimer", "Resident", "SocketShare", "PendingOperation",
        "RawSocket", "TlsException", "FrameException", "SendPace", "PacedSend"];
    private static readonly string[] _connections = ["ConnectionOptions", "ServerOptions", "ClientOptions",
        "SocketOptionRules", "NewSocket"];
    private static readonly string[] _sessions = ["Session", "FramedSession", "FrameCutter", "IConnection",
        "SessionDriver", "DriverHost", "PoolSession", "PoolSends", "DirectSend", "Strand", "StrandQueue",
        "SessionCallback", "SessionOrder", "EndWait", "IEndWait", "Newcomer", "BodyStream", "Intake", "AsyncReceive",
        "Pipe", "SlowSession"];
    private static readonly string[] _groups = ["SessionGroup", "NamedGroups", "GroupMembers", "GroupShard",
        "MemberVisit", "BroadcastOperation", "BroadcastForms"];
    private static readonly string[] _hosts = ["Server", "ServerMetrics", "ServerTraces", "StatusSocket",
        "StatusSnapshot", "Client", "SessionContext", "AcceptedConnection", "Connector", "PendingConnect", "StopDrain"];

    // Exceptions from the order, each with its reason: files by the names of their types, and the types that they may
    // use. An unused exception is a finding.
    private static readonly (string[] From, string[] To, string Reason)[] _exceptions =
    [
        (["Engines/Loop"], ["Connection", "PoolSession", "HandshakePace", "TlsScratch", "SendOperation",
            "FreeSentMarks", "StrandBlocks", "ConnectionHost", "LentRoom"],
            "the verbs of engines for connections, and what the connections of a loop share"),
        (["Engines/Engine"], ["EngineSelector", "Session", "PoolSession", "SessionOrder", "SocketFactory",
            "InterfaceLookup"], "the engine is the factory of loops, the place of what all "
                + "of them share, and informed of sessions by the memory engine's watcher"),
        (["Engines/Completion", "Engines/StopWait"], ["PoolSession", "Session", "IEndWait"],
            "an await in a callback on the pool resumes in its order, and one that blocks on the end is completed "
            + "before its own last callback"),
        (["Connections/Connection", "Connections/OutboundQueue"], ["Session", "SessionCallback",
            "PassedLimit", "SessionDriver", "PoolSession", "PoolSends", "DirectSend", "Strand", "Newcomer", "Pipe",
            "GroupShard", "SessionGroup"], "a connection calls the overrides of its session, by its driver or by a "
                + "strand, wakes the pipes that end here, and is a member of groups"),
        (["Connections/ConnectionHost", "Connections/HostShard"], ["Session", "Newcomer", "SessionGroup", "GroupShard"],
            "what a connection needs of the server or client above it, and its members on one loop"),
        (["Session"], ["SessionGroup", "Server", "Client"],
            "what the user may ask a session for; the session itself never calls server or client"),
    ];

    public static IEnumerable<Finding> Check(CodeModel model)
    {
        HashSet<(string, string)> needed = [];
        foreach (var (file, node, target) in Uses(model))
        {
            string from = file.Path[Core.Length..], to = CodeModel.PathOf(target)[Core.Length..];
            if (target.TypeKind == TypeKind.Enum || target.IsReadOnly) continue;

            if (EngineOf(from) is { } mine && EngineOf(to) is { } other && mine != other)
                yield return file.At(node, $"the {mine} engine names {target.Name} of the {other} engine");
            else if (EngineOf(from) is { } engine && to.StartsWith("Tls/", StringComparison.Ordinal))
                yield return file.At(node,
                    $"the {engine} engine names {target.Name}, which is TLS: engines move bytes and know no layers");
            else if (LayerOf(from) < LayerOf(to) && IsException(from, target.Name))
                needed.Add((StemOf(from), target.Name));
            else if (LayerOf(from) < LayerOf(to))
                yield return file.At(node, $"{from} (layer {LayerOf(from)}) names {target.Name} of {to} (layer "
                    + $"{LayerOf(to)}): lower layers do not know upper ones");
        }

        var first = model.Files.FirstOrDefault(static f => f.IsIn(Core));
        if (first is null) yield break;
        foreach (var (from, to, _) in _exceptions)
        {
            if (!model.Files.Any(f => f.IsIn(Core) && from.Contains(StemOf(f.Path[Core.Length..])))) continue;
            foreach (var name in to)
            {
                if (!from.Any(f => needed.Contains((f, name))))
                    yield return first.At(first.Root,
                        $"the layers have an unused exception for {string.Join(", ", from)} and {name}: remove it from "
                        + $"Rules/Layers.cs");
            }
        }
    }

    private static bool IsException(string from, string name) =>
        _exceptions.Any(e => e.From.Contains(StemOf(from)) && e.To.Contains(name));

    /// The path without the suffix after the type's name: Connections/Connection for Connections/Connection.Tls.cs.
    private static string StemOf(string path)
    {
        int slash = path.LastIndexOf('/') + 1;
        return path[..path.IndexOf('.', slash)];
    }

    /// 0 platform, buffers, diagnostics; 1 loops; 2 connections, TLS, datagrams and their options; 3 sessions; 4
    /// groups; 5 engines; 6 selector; 7 servers, clients and streams.
    internal static int LayerOf(string path)
    {
        var name = Path.GetFileNameWithoutExtension(path).Split('.')[0];
        if (path.StartsWith("Linux/", StringComparison.Ordinal) || path.StartsWith("Buffers/", StringComparison.Ordinal)
            || path.StartsWith("Diagnostics/", StringComparison.Ordinal))
            return 0;
        if (EngineOf(path) is not null) return 5;
        if (name == "EngineSelector") return 6;
        if (path.StartsWith("Streams/", StringComparison.Ordinal) || _hosts.Contains(name)) return 7;
        if (_groups.Contains(name)) return 4;
        if (_sessions.Contains(name)) return 3;
        if (path.StartsWith("Engines/", StringComparison.Ordinal) || _loops.Contains(name)) return 1;
        bool isOfConnections = (path.Contains('/', StringComparison.Ordinal) && !_mixed.Contains(path.Split('/')[0]))
            || _connections.Contains(name) || name.StartsWith("Tls", StringComparison.Ordinal)
            || name.StartsWith("Datagram", StringComparison.Ordinal);
        return isOfConnections ? 2 : 1;
    }

    private static string? EngineOf(string path) =>
        _engines.FirstOrDefault(e => path.StartsWith($"Engines/{e}/", StringComparison.Ordinal));

    private static IEnumerable<(SourceFile File, SyntaxNode Node, INamedTypeSymbol Target)> Uses(CodeModel model)
    {
        foreach (var file in model.Files)
        {
            if (!file.IsIn(Core)) continue;
            var meaning = model.For(file);
            foreach (var node in file.All<SimpleNameSyntax>())
            {
                var symbol = meaning.GetSymbolInfo(node).Symbol;
                var type = symbol as INamedTypeSymbol ?? symbol?.ContainingType;
                if (type is not null && CodeModel.PathOf(type).StartsWith(Core, StringComparison.Ordinal))
                    yield return (file, node, type);
            }
        }
    }
}
