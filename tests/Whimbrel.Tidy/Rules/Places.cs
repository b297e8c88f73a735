using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy.Rules;

// Code that is permitted in a few named files only: platform checks, and calls into native code.
internal static class Places
{
    public static IEnumerable<Finding> PlatformQuestions(SourceFile file)
    {
        if (file.Name is "EngineSelector.cs" or "SocketFactory.cs"
            || file.Path.EndsWith("Linux/KernelProbe.cs", StringComparison.Ordinal))
            return [];
        return from access in file.All<MemberAccessExpressionSyntax>()
               let owner = access.Expression.ToString().Split('.')[^1]
               let member = access.Name.Identifier.Text
               where (owner == "OperatingSystem" && member.StartsWith("Is", StringComparison.Ordinal))
                   || (owner == "RuntimeInformation" && member == "IsOSPlatform")
                   || (owner == "Environment" && member == "OSVersion")
               select file.At(access, $"{access} asks about the platform: only EngineSelector.cs, SocketFactory.cs and "
                   + $"Linux/KernelProbe.cs do");
    }

    public static IEnumerable<Finding> NativeCalls(SourceFile file)
    {
        if (file.Path.Contains("/Linux/", StringComparison.Ordinal)
            || file.Path.Contains("/Tls/OpenSsl", StringComparison.Ordinal) || file.Name == "Zlib.cs")
            return [];
        return from name in file.All<SimpleNameSyntax>()
               where name.Identifier.Text is "DllImport" or "DllImportAttribute" or "LibraryImport"
                   or "LibraryImportAttribute" or "NativeLibrary"
               select file.At(name, $"{name.Identifier.Text} outside Linux/: system calls have one home");
    }

    // Locks, tasks and LINQ cost more than the work between a completion and the user's override; threads meet in the
    // mailbox only. A cold path says "// tidy: allowed because ...".
    public static IEnumerable<Finding> HotPath(CodeModel model)
    {
        foreach (var file in model.Files)
        {
            if (!file.Path.Contains("/Connections/", StringComparison.Ordinal)
                && !file.Path.Contains("/Engines/", StringComparison.Ordinal)
                && !file.Path.Contains("/Parsing/", StringComparison.Ordinal))
                continue;
            if (file.Name is "Mailbox.cs" || file.Path.Contains("/Engines/Portable/", StringComparison.Ordinal))
                continue;

            var meaning = model.For(file);
            foreach (var node in file.Root.DescendantNodes())
            {
                var what = node switch
                {
                    LockStatementSyntax => "lock",
                    AwaitExpressionSyntax => "await",
                    MethodDeclarationSyntax m when m.Modifiers.Any(SyntaxKind.AsyncKeyword) => "async",
                    QueryExpressionSyntax => "LINQ",
                    SimpleNameSyntax { Identifier.Text: "ConcurrentDictionary" } => "ConcurrentDictionary",
                    InvocationExpressionSyntax call when meaning.GetSymbolInfo(
                        call).Symbol?.ContainingType?.ToDisplayString() == "System.Linq.Enumerable" => "LINQ",
                    LambdaExpressionSyntax lambda when meaning.AnalyzeDataFlow(lambda) is { Succeeded: true } flow
                        && flow.DataFlowsIn.Any() => "a lambda that captures",
                    _ => null,
                };
                if (what is not null && !file.Excuses(file.LineOf(node), "allowed"))
                    yield return file.At(node, $"{what} in {file.Path}: this code runs on a loop");
            }
        }
    }

    // Readers and writers map bytes to events and bytes, so that they can be tested at every cut and used by every
    // session.
    public static IEnumerable<Finding> OnlyBytes(CodeModel model)
    {
        string[] foreign = ["Session", "Connection", "Loop", "Server", "Client", "Socket", "Task", "ValueTask",
            "Stream", "TimeProvider", "Stopwatch", "UtcNow", "Now", "TickCount64"];
        foreach (var file in model.Files.Where(f => f.Path.Contains("/Parsing/", StringComparison.Ordinal)))
        {
            var meaning = model.For(file);
            foreach (var name in file.All<SimpleNameSyntax>().Where(n => foreign.Contains(n.Identifier.Text)))
            {
                var symbol = meaning.GetSymbolInfo(name).Symbol;
                if (symbol is INamedTypeSymbol
                    || symbol is { IsStatic: true, ContainingNamespace.Name: "System" or "Diagnostics" })
                    yield return file.At(name,
                        $"names {name.Identifier.Text}: a reader or writer knows bytes only, time is an argument");
            }
        }
    }
}
