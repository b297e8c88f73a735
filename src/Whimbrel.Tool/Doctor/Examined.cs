namespace Whimbrel.Tool.Doctor;

/// <summary>What the doctor looks at. Tests make one of forged parts.</summary>
/// <param name="System">/proc and /sys.</param>
/// <param name="Support">Whether an engine can run here: <see cref="Engine.SupportFor"/>.</param>
/// <param name="Processors">Cpus that the process may use, with its CPU limit rounded up.</param>
/// <param name="Loops">Number of loops that the program will have.</param>
/// <param name="Collector">The program's garbage collector; null when its settings are not understood.</param>
internal sealed record Examined(SystemTree System, Func<EngineKind, EngineSupport> Support, int Processors, int Loops, GarbageCollector? Collector);
