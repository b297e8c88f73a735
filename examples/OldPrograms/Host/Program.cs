using System;
using System.Linq;
using System.Reflection;

namespace OldPrograms.Host;

/// One program for all: the first word names a class with a Main, the rest is its command line. Examples.X and
/// Performance.X are NetCoreServer's, CSharp.Examples.X and CSharp.Performance.X those of CSharpServer.
internal static class Program
{
    private static int Main(string[] args)
    {
        var programs = typeof(Program).Assembly.GetTypes().Where(t => t != typeof(Program) && t.GetMethod("Main", BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public) != null).ToArray();
        var named = programs.Where(p => args.Length > 0 && Is(p, args[0])).ToArray();
        if (named.Length != 1)
        {
            Console.Error.WriteLine("The first word names a program: " + string.Join(", ", programs.Select(NameOf).OrderBy(n => n, StringComparer.Ordinal)));
            return 2;
        }

        named[0].GetMethod("Main", BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public).Invoke(null, [args[1..]]);
        return 0;
    }

    private static string NameOf(Type program)
    {
        return program.FullName["OldPrograms.".Length..];
    }

    // One of NetCoreServer's is known by its last word where that is enough.
    private static bool Is(Type program, string name)
    {
        string full = NameOf(program);
        return full.Equals(name, StringComparison.OrdinalIgnoreCase) || (!full.StartsWith("CSharp.", StringComparison.Ordinal) && program.Name.Equals(name, StringComparison.OrdinalIgnoreCase));
    }
}
