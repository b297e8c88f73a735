using System;
using System.Linq;
using System.Reflection;

namespace OldPrograms.Host;

/// One program for all: the first word names a class with a Main, the rest is its command line. Those of CSharpServer are CSharp.Examples.X and CSharp.Performance.X.
internal static class Program
{
    private static int Main(string[] args)
    {
        var programs = typeof(Program).Assembly.GetTypes()
            .Where(t => t != typeof(Program) && t.GetMethod("Main", BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public) != null)
            .ToDictionary(NameOf, StringComparer.OrdinalIgnoreCase);
        if (args.Length == 0 || !programs.TryGetValue(args[0], out var program))
        {
            Console.Error.WriteLine("The first word names a program: " + string.Join(", ", programs.Keys.OrderBy(n => n, StringComparer.Ordinal)));
            return 2;
        }

        program.GetMethod("Main", BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public).Invoke(null, [args[1..]]);
        return 0;
    }

    private static string NameOf(Type program)
    {
        return program.Namespace.StartsWith("OldPrograms.CSharp", StringComparison.Ordinal) ? program.FullName["OldPrograms.".Length..] : program.Name;
    }
}
