using System.Reflection;

namespace Whimbrel.Docs;

// Runs the tests of a compiled snippet in this process: every [Fact] on its own instance.
internal static class TestRunner
{
    /// Returns the number of tests. The first failing test rethrows its exception.
    public static async Task<int> RunAsync(byte[] assembly)
    {
        var facts = Assembly.Load(assembly).GetTypes().SelectMany(t => t.GetMethods())
            .Where(m => m.GetCustomAttribute<FactAttribute>() is not null).ToList();
        foreach (var fact in facts)
        {
            var test = fact.IsStatic ? null : Activator.CreateInstance(fact.DeclaringType!);
            if (fact.Invoke(test, BindingFlags.DoNotWrapExceptions, null, null, null) is Task task) await task;
        }
        return facts.Count;
    }
}
