using System.Reflection;

namespace Whimbrel.Docs;

// Runs the tests of a compiled snippet in this process: every [Fact] on an object of its own.
internal static class TestRunner
{
    /// How many there were. The first that fails throws what it threw.
    public static async Task<int> RunAsync(byte[] assembly)
    {
        var facts = Assembly.Load(assembly).GetTypes().SelectMany(t => t.GetMethods()).Where(m => m.GetCustomAttribute<FactAttribute>() is not null).ToList();
        foreach (var fact in facts)
        {
            var test = fact.IsStatic ? null : Activator.CreateInstance(fact.DeclaringType!);
            if (fact.Invoke(test, BindingFlags.DoNotWrapExceptions, null, null, null) is Task task) await task;
        }
        return facts.Count;
    }
}
